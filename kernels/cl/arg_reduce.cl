// Position, and optionally value, of the greatest or smallest element along one dimension; the
// first of equals, a NaN before all others. Both families: a work-item takes `per_item` outputs.
//   IN, COMPUTE; BETTER(x, y): x replaces y; WITH_VALUES: also writes the values.
// Shapes are those of reduce.clh with one reduced dimension. Grid: work-items.
#define OUT i64
#include "reduce.clh"

__kernel void arg_reduce(CTENSOR(in), TENSOR(indices),
#ifdef WITH_VALUES
                         TENSOR(values),
#endif
                         const Shape s, const ulong per_item) {
  const ulong last = min((get_global_id(0) + 1) * per_item, s.outputs);
  for (ulong n = get_global_id(0) * per_item; n < last; ++n) {
    __global const char *p = in_base + in_offset + kept_offset(n, &s, 0);
    T best = CAT(convert_, T)(LOAD(IN, (__global const MEM(IN) *)p, 0));
    long position = 0;
    for (long i = 1; i < (long)s.elements && !IS_NAN(best); ++i) {
      const T a =
          CAT(convert_, T)(LOAD(IN, (__global const MEM(IN) *)(p + i * s.reduced_in[0]), 0));
      if (BETTER(a, best) || IS_NAN(a)) {
        best = a;
        position = i;
      }
    }
    *(__global long *)(indices_base + indices_offset + kept_offset(n, &s, 1)) = position;
#ifdef WITH_VALUES
    // Values and indices have the same strides in elements.
    STORE(IN,
          (__global MEM(IN) *)(values_base + values_offset +
                               kept_offset(n, &s, 1) / (long)sizeof(long) * (long)sizeof(MEM(IN))),
          0, best);
#endif
  }
}
