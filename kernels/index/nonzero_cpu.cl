// nonzero.clh of the CPU family: a work-item reads `share` adjacent elements. Grid: a work-item for
// each share; nonzero_scan has one work-item.
#include "nonzero.clh"

#define FOR_SHARE(i)                                         \
  const ulong last = min((get_global_id(0) + 1) * share, n); \
  for (ulong i = get_global_id(0) * share; i < last; ++i)

TASK __kernel void nonzero_count(CTENSOR(in), TENSOR(counts), const ulong n, const ulong share) {
  ulong count = 0;
  FOR_SHARE(i) count += NONZERO(i) ? 1 : 0;
  PTR(ulong, counts)[get_global_id(0)] = count;
}

TASK __kernel void nonzero_scan(TENSOR(counts), const ulong shares) {
  ulong sum = 0;
  for (ulong i = 0; i < shares; ++i) {
    const ulong count = PTR(ulong, counts)[i];
    PTR(ulong, counts)[i] = sum;
    sum += count;
  }
  PTR(ulong, counts)[shares] = sum;
}

TASK __kernel void nonzero_write(CTENSOR(in), CTENSOR(counts), TENSOR(out), const ulong n,
                                 const ulong share, const ulong total, const Sizes sizes) {
  __global long *row = PTR(long, out) + CPTR(ulong, counts)[get_global_id(0)];
  FOR_SHARE(i) if (NONZERO(i)) write_coordinates(row++, i, total, &sizes);
}
