// out[row][i] = sum of values[n] * dense[columns[n]][i] over the entries n of a sparse row, from
// offsets[row] to offsets[row + 1] (compressed row form, CSR), both families.
//   IN     element type
//   INDEX  C type of offsets and columns
//   WIDTH  columns that a work-item computes at a time
// GPUs leave rows of more than MOST entries to sparse_mm_long, where a work-group shares a
// row (stripes.clh).
#include "common.clh"
#include "types.clh"
#include "grid.clh"
#include "math.clh"
#include "stripes.clh"

GRID __kernel void sparse_mm(CTENSOR(offsets), CTENSOR(columns), CTENSOR(values), CTENSOR(dense),
                             TENSOR(out), const ulong rows, const ulong width,
                             const ulong per_item) {
  FOR_UNITS(row, rows, per_item) {
    const ulong first = CPTR(INDEX, offsets)[row], last = CPTR(INDEX, offsets)[row + 1];
    __global MEM(IN) *result = PTR(MEM(IN), out) + row * width;
#ifdef MOST
    if (last - first > MOST) continue;
#endif
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

#ifdef MOST
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void sparse_mm_long(
    CTENSOR(offsets), CTENSOR(columns), CTENSOR(values), CTENSOR(dense), TENSOR(out),
    const ulong rows, const ulong width, const StripeShare share) {
  __local T partial[GROUP];
  STRIPES
#define FIND_ENTRIES \
  const ulong first = CPTR(INDEX, offsets)[row], last = CPTR(INDEX, offsets)[row + 1];
  FOR_LONG(row, rows, FIND_ENTRIES, last - first)
    T sum = 0;
    if (column < width) {
      FOR_STRIPE(n, first, last)
        sum += (T)LOAD(IN, CPTR(MEM(IN), values), n) *
               (T)LOAD(IN, CPTR(MEM(IN), dense), CPTR(INDEX, columns)[n] * width + column);
    }
    partial[item] = sum;
    JOIN_STRIPES(partial[item] += partial[other];)
    if (stripe == 0 && column < width) {
      STORE(IN, PTR(MEM(IN), out), row * width + column, partial[item]);
    }
  END_LONG
}
#endif
