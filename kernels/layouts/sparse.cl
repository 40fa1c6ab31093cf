// Sparse matrices in compressed row form (CSR), both families.
//   INDEX  C type of the indices
//   sparse_mm: out[row][i] = sum of values[n] * dense[columns[n]][i] over the entries n of the row,
//     from offsets[row] to offsets[row + 1]. IN: element type; WIDTH columns at a time.
//   row_offsets: offsets[row], how many of the `count` sorted row numbers are less than `row`.
//   row_numbers: the reverse, for `batches` matrices with the same number of entries.
#include "common.clh"
#include "types.clh"
#include "grid.clh"

#ifdef IN
#include "math.clh"

GRID __kernel void sparse_mm(CTENSOR(offsets), CTENSOR(columns), CTENSOR(values), CTENSOR(dense),
                             TENSOR(out), const ulong rows, const ulong width,
                             const ulong per_item) {
  FOR_UNITS(row, rows, per_item) {
    const ulong first = CPTR(INDEX, offsets)[row], last = CPTR(INDEX, offsets)[row + 1];
    __global MEM(IN) *result = PTR(MEM(IN), out) + row * width;
    FOR_INNER(block, (width + WIDTH - 1) / WIDTH) {
      ulong i = block * WIDTH;
#if WIDTH > 1
      if (i + WIDTH <= width) {
        V sum = (V)((T)0);
        for (ulong n = first; n < last; ++n) {
          const T value = LOAD(IN, CPTR(MEM(IN), values), n);
          const ulong from = CPTR(INDEX, columns)[n] * width + i;
          sum += value * CONVERT(T, LOADV(IN, CPTR(MEM(IN), dense), from));
        }
        STOREV(IN, result, i, sum);
        continue;
      }
#endif
      for (; i < width && i < (block + 1) * WIDTH; ++i) {
        T sum = 0;
        for (ulong n = first; n < last; ++n)
          sum += (T)LOAD(IN, CPTR(MEM(IN), values), n) *
                 (T)LOAD(IN, CPTR(MEM(IN), dense), CPTR(INDEX, columns)[n] * width + i);
        STORE(IN, result, i, sum);
      }
    }
  }
}

#else

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

#endif
