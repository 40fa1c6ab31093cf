// out[row][i] = sum of values[n] * dense[columns[n]][i] over the entries n of a sparse row, from
// offsets[row] to offsets[row + 1] (compressed row form, CSR), both families.
//   IN     element type
//   INDEX  C type of offsets and columns
//   WIDTH  columns that a work-item computes at a time
#include "common.clh"
#include "types.clh"
#include "grid.clh"
#include "math.clh"

GRID __kernel void sparse_mm(CTENSOR(offsets), CTENSOR(columns), CTENSOR(values), CTENSOR(dense),
                             TENSOR(out), const ulong rows, const ulong width,
                             const ulong per_item) {
  FOR_UNITS(row, rows, per_item) {
    const ulong first = CPTR(INDEX, offsets)[row], last = CPTR(INDEX, offsets)[row + 1];
    __global MEM(IN) *result = PTR(MEM(IN), out) + row * width;
    FOR_INNER(block, DIVIDE_UP(width, WIDTH)) {
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
