// Reduction kernels of the GPU family (reduce.clh). GROUP: the work-group size.
//   reduce_group: a work-group per output and part. Grid: outputs * GROUP, parts.
//   reduce_item: a work-item per output and part; for outputs that are adjacent in memory. Grid:
//     outputs rounded up to GROUP, parts.
#include "reduce.clh"

#define ELEMENT(n) \
  CAT(convert_, T)(LOAD(IN, (__global const MEM(IN) *)(base + reduced_offset(n, &s, 0)), 0))

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void reduce_group(
    CTENSOR(in), TENSOR(out), const Shape s, const ulong per_task) {
  __local T partial[GROUP];
  const ulong output = group_id(0), part = group_id(1);
  const uint item = get_local_id(0);
  FIND_PART(output, part)
  const ulong series = series_of((to - from) / GROUP) * GROUP;
  T total = INIT;
  for (ulong n = from + item; n < to;) {
    const ulong end = min(n + series, to);
    T acc = INIT;
    for (; n < end; n += GROUP) {
      const T a = ELEMENT(n);
      acc = STEP(acc, a);
    }
    total = MERGE(total, acc);
  }
  partial[item] = total;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint step = GROUP / 2; step > 0; step /= 2) {
    if (item < step) partial[item] = MERGE(partial[item], partial[item + step]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (item == 0) {
    const ulong count = s.count;
    const T result = partial[0];
    STORE_RESULT(output_of(out_base + out_offset, output, part, &s), result);
  }
}

__kernel void reduce_item(CTENSOR(in), TENSOR(out), const Shape s) {
  const ulong output = get_global_id(0), part = get_global_id(1);
  if (output >= s.outputs) return;
  FIND_PART(output, part)
  const ulong series = series_of(to - from);
  T total = INIT;
  for (ulong n = from; n < to;) {
    const ulong end = min(n + series, to);
    T acc = INIT;
    for (; n < end; ++n) {
      const T a = ELEMENT(n);
      acc = STEP(acc, a);
    }
    total = MERGE(total, acc);
  }
  const ulong count = s.count;
  STORE_RESULT(output_of(out_base + out_offset, output, part, &s), total);
}
