// arg_reduce.clh with a work-group per output.
//   arg_group        a part of the elements. Grid: outputs * GROUP, parts
//   arg_merge_group  joins the parts. Grid: outputs * GROUP
#include "arg_reduce.clh"

#define UNROLL 4
#define FOR(k) _Pragma("unroll") for (uint k = 0; k < UNROLL; ++k)
#define KERNEL __attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void
#define LOCALS            \
  __local T values[GROUP]; \
  __local long positions[GROUP];

// Sets `best` to the best of the group. The caller needs a barrier before the next use of the
// arrays.
#define GROUP_BEST(best)                                                              \
  values[item] = best.value;                                                          \
  positions[item] = best.position;                                                    \
  barrier(CLK_LOCAL_MEM_FENCE);                                                       \
  for (uint step = GROUP / 2; step > 0; step /= 2) {                                  \
    if (item < step) {                                                                \
      const Best mine = {.value = values[item], .position = positions[item]};         \
      const Best other = {.value = values[item + step], .position = positions[item + step]}; \
      if (precedes(other, mine)) {                                                    \
        values[item] = other.value;                                                   \
        positions[item] = other.position;                                             \
      }                                                                               \
    }                                                                                 \
    barrier(CLK_LOCAL_MEM_FENCE);                                                     \
  }                                                                                   \
  best.value = values[0];                                                             \
  best.position = positions[0];

KERNEL arg_group(CTENSOR(in), TENSOR(indices) VALUES_PARAM, const Shape s) {
  LOCALS
  const ulong n = group_id(0), part = group_id(1);
  const uint item = get_local_id(0);
  FIND_PART(n, part)
  // A work-item takes every GROUP-th element, and counts its elements in 32 bits. If the part has
  // fewer elements than the group, some work-items take the last one.
  const ulong first = min((ulong)item, to - from - 1);
  const uint count = (uint)((to - from - 1 - first) / GROUP) + 1;
  const long step = GROUP * s.reduced_in[0];
  __global const char *p = base + (long)(from + first) * s.reduced_in[0];
  T value = ELEMENT_AT(p);
  uint at = 0, i = 1;
#define TAKE(next, number)                                                    \
  if (!IS_NAN(value) && (IS_NAN(next) || BETTER(next, value))) {              \
    value = next;                                                             \
    at = number;                                                              \
  }
  for (p += step; i + UNROLL <= count; i += UNROLL, p += UNROLL * step) {
    T next[UNROLL];  // loads all before it uses one
    FOR(k) next[k] = ELEMENT_AT(p + k * step);
    FOR(k) TAKE(next[k], i + k)
  }
  for (; i < count; ++i, p += step) {
    const T next = ELEMENT_AT(p);
    TAKE(next, i)
  }
  Best best = {.value = value, .position = (long)(from + first + (ulong)at * GROUP)};
  GROUP_BEST(best)
  if (item == 0) STORE_BEST(best, n, part);
}

#ifndef PARTIAL
KERNEL arg_merge_group(CTENSOR(in), CTENSOR(positions), TENSOR(indices) VALUES_PARAM,
                       const Shape s) {
  LOCALS
  const ulong n = group_id(0);
  const uint item = get_local_id(0);
  Best best = FOUND(min((ulong)item, s.parts - 1), n);
  for (ulong part = item + GROUP; part < s.parts; part += GROUP) {
    const Best next = FOUND(part, n);
    if (precedes(next, best)) best = next;
  }
  GROUP_BEST(best)
  if (item == 0) STORE_BEST(best, n, 0);
}
#endif
