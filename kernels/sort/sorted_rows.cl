// Kernels over sorted rows.
//   IN: element type; INDEX: C type of positions
//   search_sorted: the position in a sorted row before which each value belongs; with RIGHT, after
//     equal elements. Values are [rows][count]; there is one sorted row of `length` for all, or one
//     for each. SORTER: the order in which a row is sorted. NaN is greater than all numbers.
//   run_lengths: in a sorted row, the last of several equal elements gets their number, all others
//     0. A NaN equals nothing.
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

GRID __kernel void run_lengths(CTENSOR(sorted), TENSOR(out), const ulong rows, const ulong length,
                               const ulong per_item) {
  FOR_UNITS(u, rows, per_item) FOR_INNER(i, length) {
    __global const MEM(IN) *row = CPTR(MEM(IN), sorted) + u * length;
    const T value = LOAD(IN, row, i);
    ulong from = i, to = i;
    if (i + 1 < length && value == LOAD(IN, row, i + 1)) to = from = i + 1;  // not the last one
    else if (i > 0 && value == LOAD(IN, row, i - 1)) from = 0, to = i - 1;
    while (from < to) {
      const ulong middle = from + (to - from) / 2;
      if (LOAD(IN, row, middle) == value) to = middle;
      else from = middle + 1;
    }
    PTR(INDEX, out)[u * length + i] = (INDEX)(i + 1 - from);
  }
}
