// Positions of the elements that are not zero, in order, of a contiguous tensor; both families. A
// work-item reads `share` adjacent elements.
//   IN: element type; NDIM: dimensions of the tensor
//   nonzero_count: counts[item] = the number of elements that are not zero
//   nonzero_scan: one work-item replaces the counts by the positions of each item's first result,
//     and sets counts[items] to their sum
//   nonzero_write: writes the coordinates, NDIM columns of `total` rows, column by column
// For example 3 work-items with 3 elements each:
//   5 0 1 | 0 0 0 | 0 2 3     counts 2 0 2    scanned 0 2 2, sum 4    written 0 2 | | 7 8
#include "common.clh"
#include "types.clh"

// GPUs have work-items without a share.
#define NO_SHARE (get_global_id(0) * share >= n)
#define NONZERO(i) (LOAD(IN, CPTR(MEM(IN), in), i) != 0)
#define FOR_SHARE(i)                                                    \
  const ulong last = min((get_global_id(0) + 1) * share, n);            \
  for (ulong i = get_global_id(0) * share; i < last; ++i)

typedef struct {
  ulong size[NDIM];
} Sizes;

__kernel void nonzero_count(CTENSOR(in), TENSOR(counts), const ulong n, const ulong share) {
  if (NO_SHARE) return;
  ulong count = 0;
  FOR_SHARE(i) count += NONZERO(i) ? 1 : 0;
  PTR(ulong, counts)[get_global_id(0)] = count;
}

__kernel void nonzero_scan(TENSOR(counts), const ulong items) {
  ulong sum = 0;
  for (ulong i = 0; i < items; ++i) {
    const ulong count = PTR(ulong, counts)[i];
    PTR(ulong, counts)[i] = sum;
    sum += count;
  }
  PTR(ulong, counts)[items] = sum;
}

__kernel void nonzero_write(CTENSOR(in), CTENSOR(counts), TENSOR(out), const ulong n,
                            const ulong share, const ulong total, const Sizes sizes) {
  if (NO_SHARE) return;
  __global long *row = PTR(long, out) + CPTR(ulong, counts)[get_global_id(0)];
  FOR_SHARE(i) {
    if (!NONZERO(i)) continue;
    ulong rest = i;
    for (int d = NDIM - 1; d >= 0; --d) {
      row[d * total] = (long)(rest % sizes.size[d]);
      rest /= sizes.size[d];
    }
    ++row;
  }
}
