// Finds the element with a given rank (position in the sorted row) in each row of `size` elements,
// without sorting; CPU family. A pass finds 8 bits of its key, the most significant bits first,
// among the elements that agree in the earlier bits. A row is split into chunks.
//   select_count  counts[row][digit][chunk] of the digits at bit `shift`. Grid: chunks, rows
//   select_digit  adds the digit that the rank falls into to the key; in the last pass also finds
//                 the chunk. Grid: rows
//   select_find   the element and its position. Grid: rows
// `state` has three numbers for each row: the known bits of the key, the rank among the elements
// that have them, and the chunk. Equal elements have the order of their positions.
#include "sort_key.clh"

#define DIGITS 256
#define CHUNK_OF_ROW(chunk)                           \
  const ulong share = DIVIDE_UP(size, chunks);        \
  const ulong from = min((chunk) * share, size), to = min(from + share, size);

__kernel void select_count(CTENSOR(in), CTENSOR(state), TENSOR(counts), const ulong size,
                           const ulong chunks, const uint shift) {
  const ulong chunk = get_global_id(0), row = get_global_id(1);
  __global const BITS *x = CPTR(BITS, in) + row * size;
  const ulong known = CPTR(ulong, state)[3 * row];
  const ulong mask = shift + 8 < KEY_BITS ? ~0UL << (shift + 8) : 0;
  uint own[DIGITS];
  for (int d = 0; d < DIGITS; ++d) own[d] = 0;
  CHUNK_OF_ROW(chunk)
  for (ulong i = from; i < to; ++i) {
    const ulong key = key_of(x[i]);
    if (((key ^ known) & mask) == 0) ++own[key >> shift & (DIGITS - 1)];
  }
  __global uint *count = PTR(uint, counts) + row * DIGITS * chunks + chunk;
  for (int d = 0; d < DIGITS; ++d) count[d * chunks] = own[d];
}

__kernel void select_digit(CTENSOR(counts), TENSOR(state), const ulong chunks, const uint shift) {
  const ulong row = get_global_id(0);
  __global const uint *count = CPTR(uint, counts) + row * DIGITS * chunks;
  __global ulong *known = PTR(ulong, state) + 3 * row;
  ulong rank = known[1], digit = 0, chunk = 0;
  for (; digit < DIGITS - 1; ++digit) {
    ulong elements = 0;
    for (ulong c = 0; c < chunks; ++c) elements += count[digit * chunks + c];
    if (rank < elements) break;
    rank -= elements;
  }
  if (shift == 0) {
    for (; chunk < chunks - 1 && rank >= count[digit * chunks + chunk]; ++chunk) {
      rank -= count[digit * chunks + chunk];
    }
  }
  known[0] |= digit << shift;
  known[1] = rank;
  known[2] = chunk;
}

__kernel void select_find(CTENSOR(in), CTENSOR(state), TENSOR(values), TENSOR(indices),
                          const ulong size, const ulong chunks) {
  const ulong row = get_global_id(0);
  __global const BITS *x = CPTR(BITS, in) + row * size;
  __global const ulong *known = CPTR(ulong, state) + 3 * row;
  CHUNK_OF_ROW(known[2])
  ulong place = from, left = known[1];
  for (ulong i = from; i < to; ++i) {
    if (key_of(x[i]) != known[0]) continue;
    place = i;
    if (left-- == 0) break;
  }
  PTR(BITS, values)[row] = x[place];
  PTR(long, indices)[row] = (long)place;
}
