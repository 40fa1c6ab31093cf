// The k elements with the least keys (sort_key.clh) of rows, in order, for k much less than the
// rows' size, on GPUs. Among equal keys the first elements win. A work-group takes a chunk of a
// row.
//
// It counts the keys by 8 bits, the most significant bits first, and so finds these bits of the
// k-th key. Once at most CAPACITY elements have those or lesser bits, it sorts these elements in
// local memory. So most rows are read twice:
//
//   k = 2, keys of two digits   31 12 40 13 11 25
//   counts of first digits      1: 3, 2: 1, 3: 1, 4: 1    the k-th key begins with 1
//   candidates                  12 13 11, which begin with 1 or less, in any order
//   sorted                      11 12 13, of which the first two are the result
//
// If too many keys equal the k-th one, it takes the first of them in the row's order. Source: T.
// Alabi, J. Blanchard, B. Gordon, R. Steinbach, Fast k-Selection Algorithms for Graphics Processing
// Units, ACM Journal of Experimental Algorithmics 17, 2012 (radix select).
//
//   GROUP     work-items of a group, a power of two up to 256
//   CAPACITY  a power of two, at least 2 * k
//   PARTIAL   the results are for a row's chunks, to be merged: `indices` have 32 bits
//   MERGE     the row consists of its chunks' results, with their `positions`
// Grid: chunks of all rows.
#include "sort_key.clh"
#include "group.clh"

#define DIGITS 256
#define COPIES 4  // copies of each count, so that fewer work-items wait for each other
#define PER 4     // elements that are loaded before one is used
#ifdef PARTIAL
#define INDEX uint
#else
#define INDEX long
#endif
#ifdef MERGE
#define POSITIONS_ARGUMENT CTENSOR(positions),
#define POSITION(i) CPTR(uint, positions)[row * size + (i)]
#else
#define POSITIONS_ARGUMENT
#define POSITION(i) (i)
#endif

// Calls each(key, i) for the elements of the chunk.
#define FOR_EACH(each)                                                         \
  for (uint first = item; first < count; first += PER * GROUP) {               \
    BITS loaded[PER];                                                          \
    _Pragma("unroll") for (uint n = 0; n < PER; ++n)                           \
      loaded[n] = x[min(first + n * GROUP, count - 1)];                        \
    _Pragma("unroll") for (uint n = 0; n < PER; ++n) {                         \
      const uint i = first + n * GROUP;                                        \
      if (i < count) each(key_of(loaded[n]), i)                                \
    }                                                                          \
  }

// The bits of a key above bit `shift`.
static inline BITS above(const BITS key, const uint shift) {
  return shift < KEY_BITS ? key >> shift : 0;
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void topk_select(
    CTENSOR(in), POSITIONS_ARGUMENT TENSOR(values), TENSOR(indices), const ulong size,
    const ulong chunks, const uint k) {
  __local BITS keys[CAPACITY];
  __local uint at[CAPACITY], counts[DIGITS * COPIES], partial[GROUP];
  __local uint chosen, lesser, equal, found;
  const uint item = get_local_id(0);
  const ulong row = group_id(0) / chunks, chunk = group_id(0) % chunks;
  const ulong from = size * chunk / chunks, to = size * (chunk + 1) / chunks;
  const uint count = (uint)(to - from);
  __global const BITS *x = CPTR(BITS, in) + row * size + from;

  // The k-th key has the bits `prefix` above `shift`; `before` elements have lesser bits there.
  BITS prefix = 0;
  uint before = 0, candidates = count, shift = KEY_BITS;
  while (candidates > CAPACITY && shift > 0) {
    for (uint d = item; d < DIGITS * COPIES; d += GROUP) counts[d] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint known = shift;
    shift -= 8;
#define COUNT(key, i)                      \
  if (above(key, known) == prefix)         \
    atomic_inc(&counts[((uint)((key) >> shift) & (DIGITS - 1)) * COPIES + item % COPIES]);
    FOR_EACH(COUNT)
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint own = DIGITS / GROUP * COPIES;
    uint total = 0;
    for (uint d = 0; d < own; ++d) total += counts[item * own + d];
    uint sum = total;
    GROUP_SCAN(sum, ADD)
    sum += before - total;
    for (uint d = 0; d < own; d += COPIES) {
      uint here = 0;
      for (uint copy = 0; copy < COPIES; ++copy) here += counts[item * own + d + copy];
      if (sum < k && k <= sum + here) {
        chosen = (item * own + d) / COPIES;
        lesser = sum;
        equal = here;
      }
      sum += here;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    prefix = (BITS)(prefix << 8 | chosen);
    before = lesser;
    candidates = before + equal;
  }

  if (item == 0) found = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  const bool all = candidates <= CAPACITY;
#define COLLECT(key, i)                                                            \
  if (above(key, shift) < prefix || (all && above(key, shift) == prefix)) {        \
    const uint place = atomic_inc(&found);                                         \
    keys[place] = key;                                                             \
    at[place] = i;                                                                 \
  }
  FOR_EACH(COLLECT)
  barrier(CLK_LOCAL_MEM_FENCE);
  uint filled = found;
  if (!all) {  // each work-item looks for equal keys in its share of the chunk
    const uint share = DIVIDE_UP(count, GROUP), begin = min(item * share, count);
    const uint end = min(begin + share, count);
    uint own = 0;
    for (uint i = begin; i < end; ++i) own += key_of(x[i]) == prefix;
    uint place = own;
    GROUP_SCAN(place, ADD)
    place += filled - own;
    for (uint i = begin; i < end && place < k; ++i) {
      if (key_of(x[i]) != prefix) continue;
      keys[place] = prefix;
      at[place] = i;
      ++place;
    }
    filled = k;
    barrier(CLK_LOCAL_MEM_FENCE);
  }

  // K. Batcher's bitonic sort: Knuth, The Art of Computer Programming 3, 5.3.4.
  uint length = 1;
  while (length < filled) length *= 2;
  for (uint i = filled + item; i < length; i += GROUP) {
    keys[i] = (BITS)~(BITS)0;
    at[i] = UINT_MAX;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint run = 2; run <= length; run *= 2) {
    for (uint step = run / 2; step > 0; step /= 2) {
      for (uint n = item; n < length / 2; n += GROUP) {
        const uint i = 2 * n - n % step, j = i + step;
        const bool ascends = (i & run) == 0;
        const BITS key = keys[i], other_key = keys[j];
        const uint place = at[i], other_place = at[j];
        if (ascends == COMES_BEFORE(other_key, other_place, key, place)) {
          keys[i] = other_key;
          keys[j] = key;
          at[i] = other_place;
          at[j] = place;
        }
      }
      barrier(CLK_LOCAL_MEM_FENCE);
    }
  }
  for (uint i = item; i < k; i += GROUP) {
    const ulong place = (ulong)group_id(0) * k + i;
    PTR(BITS, values)[place] = x[at[i]];
    PTR(INDEX, indices)[place] = (INDEX)POSITION(from + at[i]);
  }
}
