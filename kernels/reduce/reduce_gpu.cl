// Reduction kernels of the GPU family (reduce.clh, row_items.clh).
//   reduce_group: 2^row_shift adjacent work-items take an output and part, so a group takes
//     GROUP >> row_shift outputs. Grid: outputs << row_shift, rounded up to GROUP; parts.
//   reduce_item: a work-item per output and part; for outputs that are adjacent in memory. Grid:
//     outputs rounded up to GROUP, parts.
// A work-item loads UNROLL elements before it adds the first, so it waits for memory only once.
#include "reduce.clh"
#include "row_items.clh"

#define UNROLL 4
#define FOR(k) _Pragma("unroll") for (uint k = 0; k < UNROLL; ++k)

#define ELEMENT(n) \
  CAT(convert_, T)(LOAD(IN, (__global const MEM(IN) *)(base + reduced_offset(n, &s, 0)), 0))

// Sets `total` to the sum of the part's elements first, first + step, ...
#define ADD_PART(output, part, first, step)                                     \
  __global const char *base = in_base + in_offset + kept_offset(output, &s, 0); \
  const INDEX share = s.parts > 1 ? DIVIDE_UP((INDEX)s.elements, (INDEX)s.parts) \
                                  : (INDEX)s.elements;                          \
  const INDEX from = min((INDEX)(part) * share, (INDEX)s.elements);             \
  const INDEX to = min(from + share, (INDEX)s.elements);                        \
  const INDEX series = (INDEX)series_of((to - from) / (step)) * (step);         \
  T total = INIT;                                                               \
  for (INDEX n = from + (first); n < to;) {                                     \
    const INDEX end = to - n > series ? n + series : to;                        \
    T acc = INIT;                                                               \
    for (; n < end && end - n > (UNROLL - 1) * (step); n += UNROLL * (step)) {  \
      T a[UNROLL];                                                              \
      FOR(k) a[k] = ELEMENT(n + k * (step));                                    \
      FOR(k) acc = STEP(acc, a[k]);                                             \
    }                                                                           \
    for (; n < end; n += (step)) {                                              \
      const T a = ELEMENT(n);                                                   \
      acc = STEP(acc, a);                                                       \
    }                                                                           \
    total = MERGE(total, acc);                                                  \
  }

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void reduce_group(
    CTENSOR(in), TENSOR(out), const Shape s, const uint row_shift) {
  __local T partial[GROUP];
  ROW_OF_ITEM(s.outputs, row_shift)
  const ulong output = row, part = group_id(1);
  ADD_PART(output, part, in_row, row_items)
  partial[item] = total;
  JOIN_ROW(partial[item] = MERGE(partial[item], partial[other]);)
  if (in_row == 0 && is_row) {
    const ulong count = s.count;
    const T result = partial[item];
    STORE_RESULT(output_of(out_base + out_offset, output, part, &s), result);
  }
}

__kernel void reduce_item(CTENSOR(in), TENSOR(out), const Shape s) {
  const ulong output = get_global_id(0), part = get_global_id(1);
  if (output >= s.outputs) return;
  ADD_PART(output, part, 0, 1)
  const ulong count = s.count;
  STORE_RESULT(output_of(out_base + out_offset, output, part, &s), total);
}
