// Kernels over sorted rows.
//   IN: element type; INDEX: C type of positions
//   search_sorted: the position in a sorted row before which each value belongs; with RIGHT, after
//     equal elements. Values are [rows][count]; there is one sorted row of `length` for all, or one
//     for each. SORTER: the order in which a row is sorted. NaN is greater than all numbers.
//   most_frequent: the most frequent value of each sorted row (the smallest of several), and the
//     original position of its last occurrence. `order`: the original positions of the values.
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "grid.clh"

#ifdef SORTER
#define SORTER_ARGUMENT CTENSOR(sorter),
#define AT(i) LOAD(IN, CPTR(MEM(IN), sorted), first + CPTR(long, sorter)[first + (i)])
#else
#define SORTER_ARGUMENT
#define AT(i) LOAD(IN, CPTR(MEM(IN), sorted), first + (i))
#endif
#ifdef RIGHT
#define GOES_BEHIND(x) (!((x) > value))
#else
#define GOES_BEHIND(x) (!((x) >= value))
#endif

GRID __kernel void search_sorted(CTENSOR(sorted), SORTER_ARGUMENT CTENSOR(values), TENSOR(out),
                                 const ulong rows, const ulong count, const ulong length,
                                 const ulong row_stride, const ulong per_item) {
  FOR_UNITS(u, rows, per_item) FOR_INNER(i, count) {
    const ulong first = u * row_stride;
    const T value = LOAD(IN, CPTR(MEM(IN), values), u * count + i);
    ulong from = 0, to = length;
    while (from < to) {
      const ulong middle = from + (to - from) / 2;
      const T x = AT(middle);
      if (GOES_BEHIND(x)) from = middle + 1;
      else to = middle;
    }
    PTR(INDEX, out)[u * count + i] = (INDEX)from;
  }
}

GRID __kernel void most_frequent(CTENSOR(sorted), CTENSOR(order), TENSOR(values), TENSOR(indices),
                                 const ulong rows, const ulong length, const ulong per_item) {
  FOR_UNITS(u, rows, per_item) {
    __global const MEM(IN) *row = CPTR(MEM(IN), sorted) + u * length;
    ulong best = 0, most = 0, equals = 0;
    for (ulong i = 0; i < length; ++i) {
      ++equals;
      if (i + 1 < length && LOAD(IN, row, i) == LOAD(IN, row, i + 1)) continue;
      if (equals > most) {
        most = equals;
        best = i;
      }
      equals = 0;
    }
    STORE(IN, PTR(MEM(IN), values), u, LOAD(IN, row, best));
    PTR(long, indices)[u] = CPTR(long, order)[u * length + best];
  }
}
