// arg_reduce.clh with a work-group per output and part. Grid: outputs * GROUP, parts.
#include "arg_reduce.clh"

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void arg_group(
    CTENSOR(in), TENSOR(indices) VALUES_PARAM, const Shape s) {
  __local T values[GROUP];
  __local long positions[GROUP];
  const ulong n = group_id(0), part = group_id(1);
  const uint item = get_local_id(0);
  FIND_PART(n, part)
  // Work-items beyond the last element take the first one again.
  const ulong start = from + item < to ? from + item : from;
  Best best = {.value = ELEMENT_AT(base + (long)start * s.reduced_in[0]), .position = (long)start};
  for (ulong i = start + GROUP; i < to; i += GROUP) {
    const Best next = {.value = ELEMENT_AT(base + (long)i * s.reduced_in[0]), .position = (long)i};
    if (precedes(next, best)) best = next;
  }
  values[item] = best.value;
  positions[item] = best.position;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint step = GROUP / 2; step > 0; step /= 2) {
    if (item < step) {
      const Best mine = {.value = values[item], .position = positions[item]};
      const Best other = {.value = values[item + step], .position = positions[item + step]};
      if (precedes(other, mine)) {
        values[item] = other.value;
        positions[item] = other.position;
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (item == 0) {
    const Best result = {.value = values[0], .position = positions[0]};
    STORE_BEST(result, n, part);
  }
}
