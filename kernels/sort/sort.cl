// Stable radix sort of rows of `size` elements in the CPU family (GPUs: sort_gpu.cl), 8 bits per
// pass, the least significant first (Knuth, The Art of Computer Programming 3, 5.2.5). A row is
// split into chunks. One work-item processes a chunk in order, so equal keys keep their order. A
// pass, for a row with 2 chunks and 2-bit digits:
//
//   keys          2 0 3 | 0 2 1
//   sort_count    counts[digit][chunk]    0: 1 1   1: 0 1   2: 1 1   3: 1 0
//   sort_scan     sums of earlier counts      0: 0 1   1: 2 2   2: 3 4   3: 5 6
//   sort_scatter  0 0 1 2 2 3             each chunk writes from its positions on
//
//   GROUP   work-items that add up the counts of a row
// Workspace: keys and order (the position in the row) twice each, counts [rows][256][chunks].
// Grid: at least chunks, at least `rows`; sort_scan: GROUP, rows; sort_short (instead of all
// passes): 1, at least `rows`.
#include "sort_key.clh"

#define DIGITS 256
#define DIGIT(key) ((uint)((key) >> shift) & (DIGITS - 1))
#define COUNTS (PTR(uint, counts) + row * DIGITS * chunks)
#define CHUNK_RANGE                                                    \
  const ulong chunk = get_global_id(0), row = get_global_id(1);        \
  if (row >= rows || chunk >= chunks) return;                          \
  const ulong share = DIVIDE_UP(size, chunks);                         \
  const ulong from = row * size + min(chunk * share, size);            \
  const ulong to = row * size + min((chunk + 1) * share, size);

__kernel void sort_keys(CTENSOR(in), TENSOR(keys), TENSOR(order), const ulong rows,
                        const ulong size, const ulong chunks) {
  CHUNK_RANGE
  for (ulong i = from; i < to; ++i) {
    PTR(BITS, keys)[i] = key_of(CPTR(BITS, in)[i]);
    PTR(uint, order)[i] = (uint)(i - row * size);
  }
}

__kernel void sort_count(CTENSOR(keys), TENSOR(counts), const ulong rows, const ulong size,
                         const ulong chunks, const uint shift) {
  CHUNK_RANGE
  __global uint *count = COUNTS + chunk;
  uint own[DIGITS];
  for (int d = 0; d < DIGITS; ++d) own[d] = 0;
  for (ulong i = from; i < to; ++i) ++own[DIGIT(CPTR(BITS, keys)[i])];
  for (int d = 0; d < DIGITS; ++d) count[d * chunks] = own[d];
}

// Replaces the counts by the positions where each chunk's elements of each digit begin.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void sort_scan(TENSOR(counts),
                                                                           const ulong chunks) {
  __local uint totals[GROUP];
  const ulong row = get_global_id(1), own = DIGITS / GROUP * chunks;
  const uint item = get_local_id(0);
  __global uint *count = COUNTS + item * own;
  uint total = 0;
  for (ulong i = 0; i < own; ++i) total += count[i];
  totals[item] = total;
  barrier(CLK_LOCAL_MEM_FENCE);
  uint position = 0;
  for (uint before = 0; before < item; ++before) position += totals[before];
  for (ulong i = 0; i < own; ++i) {
    const uint here = count[i];
    count[i] = position;
    position += here;
  }
}

__kernel void sort_scatter(CTENSOR(keys), CTENSOR(order), TENSOR(keys_out), TENSOR(order_out),
                           TENSOR(counts), const ulong rows, const ulong size,
                           const ulong chunks, const uint shift) {
  CHUNK_RANGE
  __global uint *count = COUNTS + chunk;
  uint position[DIGITS];
  for (int d = 0; d < DIGITS; ++d) position[d] = count[d * chunks];
  for (ulong i = from; i < to; ++i) {
    const BITS key = CPTR(BITS, keys)[i];
    const ulong at = row * size + position[DIGIT(key)]++;
    PTR(BITS, keys_out)[at] = key;
    PTR(uint, order_out)[at] = CPTR(uint, order)[i];
  }
}

// Insertion sort, for rows of a few elements.
__kernel void sort_short(CTENSOR(in), TENSOR(keys), TENSOR(order), const ulong rows,
                         const ulong size) {
  const ulong row = get_global_id(1);
  if (row >= rows) return;
  __global const BITS *x = CPTR(BITS, in) + row * size;
  __global BITS *key = PTR(BITS, keys) + row * size;
  __global uint *position = PTR(uint, order) + row * size;
  for (ulong i = 0; i < size; ++i) {
    const BITS next = key_of(x[i]);
    ulong j = i;
    for (; j > 0 && key[j - 1] > next; --j) {
      key[j] = key[j - 1];
      position[j] = position[j - 1];
    }
    key[j] = next;
    position[j] = (uint)i;
  }
}

__kernel void sort_gather(CTENSOR(in), CTENSOR(order), TENSOR(values), TENSOR(indices),
                          const ulong rows, const ulong size, const ulong chunks) {
  CHUNK_RANGE
  for (ulong i = from; i < to; ++i) {
    const uint position = CPTR(uint, order)[i];
    PTR(BITS, values)[i] = CPTR(BITS, in)[row * size + position];
    PTR(long, indices)[i] = position;
  }
}
