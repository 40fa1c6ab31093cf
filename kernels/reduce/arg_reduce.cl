// arg_reduce.clh for any strides, both families: a work-item takes `per_item` outputs of a part.
//   arg_reduce  grid: work-items, parts
//   arg_merge   joins the parts. Grid: work-items
#include "arg_reduce.clh"

__kernel void arg_reduce(CTENSOR(in), TENSOR(indices) VALUES_PARAM, const Shape s,
                         const ulong per_item) {
  const ulong part = get_global_id(1);
  const ulong last = min((get_global_id(0) + 1) * per_item, s.outputs);
  ulong from, to;
  part_range(&s, part, &from, &to);
  for (ulong n = get_global_id(0) * per_item; n < last; ++n) {
    __global const char *p = in_base + in_offset + kept_offset(n, &s, 0);
    Best best;
    best_of_run(&best, p, s.reduced_in[0], from, to);
    STORE_BEST(best, n, part);
  }
}

#ifndef PARTIAL
__kernel void arg_merge(CTENSOR(in), CTENSOR(positions), TENSOR(indices) VALUES_PARAM,
                        const Shape s, const ulong per_item) {
  const ulong last = min((get_global_id(0) + 1) * per_item, s.outputs);
  for (ulong n = get_global_id(0) * per_item; n < last; ++n) {
    Best best = FOUND(0, n);
    for (ulong part = 1; part < s.parts; ++part) {
      const Best next = FOUND(part, n);
      if (precedes(next, best)) best = next;
    }
    STORE_BEST(best, n, 0);
  }
}
#endif
