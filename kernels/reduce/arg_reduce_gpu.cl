// arg_reduce.clh with a work-group per output and part. Grid: outputs * GROUP, parts.
#include "arg_reduce.clh"

#define UNROLL 4
#define FOR(k) _Pragma("unroll") for (uint k = 0; k < UNROLL; ++k)

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void arg_group(
    CTENSOR(in), TENSOR(indices) VALUES_PARAM, const Shape s) {
  __local T values[GROUP];
  __local long positions[GROUP];
  const ulong n = group_id(0), part = group_id(1);
  const uint item = get_local_id(0);
  FIND_PART(n, part)
  // Beyond the last element, it is taken again. All of UNROLL are loaded before one is used.
#define NUMBER(k) (long)min(i + (k) * GROUP, to - 1)
#define LOADED(k) ELEMENT_AT(base + NUMBER(k) * s.reduced_in[0])
  ulong i = from + item;
  Best best = {.value = LOADED(0), .position = NUMBER(0)};
  for (i += GROUP; i < to; i += UNROLL * GROUP) {
    T next[UNROLL];
    FOR(k) next[k] = LOADED(k);
    FOR(k) {
      // Positions ascend.
      if (!IS_NAN(best.value) && (IS_NAN(next[k]) || BETTER(next[k], best.value))) {
        best.value = next[k];
        best.position = NUMBER(k);
      }
    }
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
