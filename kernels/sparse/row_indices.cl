// Sorted row numbers (coordinate form, COO) to row offsets (compressed row form, CSR), and back.
//   INDEX, OUT  C types of the given and the resulting indices
//   row_offsets: offsets[row] = number of entries n with numbers[n] < row, for `count` entries.
//     For example, entries in the rows 0, 0 and 2 of 3 rows have the offsets 0, 2, 2, 3.
//   row_numbers: the reverse, for `batches` matrices with the same number of entries.
// Wrong numbers and offsets give wrong results, but nothing is written outside of the result.
#include "common.clh"
#include "types.clh"
#include "grid.clh"

#ifdef TASKS
GRID __kernel void row_offsets(CTENSOR(numbers), TENSOR(offsets), const ulong count,
                               const ulong inner, const ulong per_item, const ulong rows) {
  FOR_UNITS(n, count + 1, per_item) {
    if (get_global_id(0) > 0) continue;
    const ulong first = n == 0 ? 0 : min((ulong)CPTR(INDEX, numbers)[n - 1], rows) + 1;
    const ulong last = n == count ? rows : min((ulong)CPTR(INDEX, numbers)[n], rows);
    for (ulong row = first; row <= last; ++row) PTR(OUT, offsets)[row] = (OUT)n;
  }
}

GRID __kernel void row_numbers(CTENSOR(offsets), TENSOR(numbers), const ulong units,
                               const ulong inner, const ulong per_item, const ulong rows,
                               const ulong count) {
  FOR_UNITS(unit, units, per_item) {
    if (get_global_id(0) > 0) continue;
    const ulong batch = unit / rows, row = unit % rows;
    __global const INDEX *range = CPTR(INDEX, offsets) + batch * (rows + 1) + row;
    const ulong last = min((ulong)range[1], count);
    for (ulong n = range[0]; n < last; ++n)
      PTR(OUT, numbers)[batch * count + n] = (OUT)row;
  }
}
#else
// Searches for each result, because a gap or a row may be as long as the matrix.
__kernel void row_offsets(CTENSOR(numbers), TENSOR(offsets), const ulong count, const ulong inner,
                          const ulong per_item, const ulong rows) {
  FOR_UNITS(row, rows + 1, per_item) {
    if (get_global_id(0) > 0) continue;
    ulong from = 0, to = count;
    while (from < to) {
      const ulong middle = from + (to - from) / 2;
      if ((ulong)CPTR(INDEX, numbers)[middle] < row) from = middle + 1;
      else to = middle;
    }
    PTR(OUT, offsets)[row] = (OUT)from;
  }
}

// An entry's row is the last one that begins at the entry or before it.
__kernel void row_numbers(CTENSOR(offsets), TENSOR(numbers), const ulong units, const ulong inner,
                          const ulong per_item, const ulong rows, const ulong count) {
  FOR_UNITS(unit, units, per_item) {
    if (get_global_id(0) > 0) continue;
    const ulong batch = unit / count, n = unit - batch * count;
    __global const INDEX *offset = CPTR(INDEX, offsets) + batch * (rows + 1);
    ulong row = 0, to = rows;
    while (to - row > 1) {
      const ulong middle = row + (to - row) / 2;
      if ((ulong)offset[middle] <= n) row = middle;
      else to = middle;
    }
    PTR(OUT, numbers)[unit] = (OUT)row;
  }
}
#endif
