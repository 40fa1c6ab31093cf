// nonzero.clh of the GPU family: a work-group of GROUP work-items reads `share` adjacent elements.
// Grid: a work-group for each share; nonzero_scan has one work-group.
#include "nonzero.clh"
#include "group.clh"

#define QUAD 4  // adjacent elements of a work-item in nonzero_write
#define GROUP_KERNEL __kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))

GROUP_KERNEL void nonzero_count(CTENSOR(in), TENSOR(counts), const ulong n, const ulong share) {
  __local uint partial[GROUP];
  const uint item = get_local_id(0);
  const ulong first = group_id(0) * share, last = min(first + share, n);
  uint count = 0;
  for (ulong i = first + item; i < last; i += GROUP) count += NONZERO(i) ? 1 : 0;
  GROUP_REDUCE(count, ADD)
  if (item == 0) PTR(ulong, counts)[group_id(0)] = count;
}

GROUP_KERNEL void nonzero_scan(TENSOR(counts), const ulong shares) {
  __local ulong partial[GROUP];
  const uint item = get_local_id(0);
  __global ulong *at = PTR(ulong, counts);
  ulong before = 0;
  for (ulong first = 0; first < shares; first += GROUP) {
    const bool is_share = first + item < shares;
    const ulong count = is_share ? at[first + item] : 0;
    ulong sum = count;
    GROUP_SCAN(sum, ADD)
    if (is_share) at[first + item] = before + sum - count;
    before += partial[GROUP - 1];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (item == 0) at[shares] = before;
}

GROUP_KERNEL void nonzero_write(CTENSOR(in), CTENSOR(counts), TENSOR(out), const ulong n,
                                const ulong share, const ulong total, const Sizes sizes) {
  __local uint partial[GROUP];
  const uint item = get_local_id(0);
  const ulong start = group_id(0) * share, last = min(start + share, n);
  ulong next = CPTR(ulong, counts)[group_id(0)];
  for (ulong quads = start; quads < last; quads += QUAD * GROUP) {
    const ulong first = quads + item * QUAD;
    bool found[QUAD];
    uint count = 0;
    for (uint k = 0; k < QUAD; ++k) {
      found[k] = first + k < last && NONZERO(first + k);
      count += found[k] ? 1 : 0;
    }
    uint sum = count;
    GROUP_SCAN(sum, ADD)
    __global long *row = PTR(long, out) + next + sum - count;
    for (uint k = 0; k < QUAD; ++k) {
      if (found[k]) write_coordinates(row++, first + k, total, &sizes);
    }
    next += partial[GROUP - 1];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}
