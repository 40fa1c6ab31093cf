// Copies rows of up to CAT_INPUTS contiguous inputs, next to each other, to rows of the result.
//   WORD: a type of which all rows are multiples
// A unit of the grid is a row; its elements are words of the first input, then of the second, ...
#include "common.clh"
#include "grid.clh"
#include "cat_parameters.clh"

#define COPY_PART(t)                                                                         \
  {                                                                                          \
    const long from = max(first, p.start[t]), to = min(last, p.start[t] + p.size[t]);        \
    __global const WORD *in = CPTR(WORD, in##t) + (long)row * p.size[t] - p.start[t];        \
    for (long i = from; i < to; ++i) result[i] = in[i];                                      \
  }

GRID __kernel void join_rows(CTENSOR(in0), CTENSOR(in1), CTENSOR(in2), CTENSOR(in3), CTENSOR(in4),
                             CTENSOR(in5), CTENSOR(in6), CTENSOR(in7), TENSOR(out),
                             const Joined p, const ulong rows, const ulong length,
                             const ulong per_item) {
  // The parts are from word p.start[0] on, and have `length` words together.
  const long first = p.start[0] + (long)INNER_FIRST(length),
             last = p.start[0] + (long)INNER_LAST(length);
  FOR_UNITS(row, rows, per_item) {
    __global WORD *result = PTR(WORD, out) + (long)row * p.row;
    COPY_PART(0)
    COPY_PART(1)
    COPY_PART(2)
    COPY_PART(3)
    COPY_PART(4)
    COPY_PART(5)
    COPY_PART(6)
    COPY_PART(7)
  }
}
