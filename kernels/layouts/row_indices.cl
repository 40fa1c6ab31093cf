// Sorted row numbers (coordinate form, COO) to row offsets (compressed row form, CSR), and back.
//   INDEX, OUT  C types of the given and the resulting indices
//   row_offsets: offsets[row] = number of entries n with numbers[n] < row, for `count` entries.
//     For example, entries in the rows 0, 0 and 2 of 3 rows have the offsets 0, 2, 2, 3.
//   row_numbers: the reverse, for `batches` matrices with the same number of entries.
#include "common.clh"
#include "types.clh"
#include "grid.clh"

GRID __kernel void row_offsets(CTENSOR(numbers), TENSOR(offsets), const ulong count,
                               const ulong inner, const ulong per_item, const ulong rows) {
  FOR_UNITS(n, count + 1, per_item) {
    if (get_global_id(0) > 0) continue;
    const ulong first = n == 0 ? 0 : (ulong)CPTR(INDEX, numbers)[n - 1] + 1;
    const ulong last = n == count ? rows : (ulong)CPTR(INDEX, numbers)[n];
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
    for (ulong n = range[0]; n < (ulong)range[1]; ++n)
      PTR(OUT, numbers)[batch * count + n] = (OUT)row;
  }
}
