// out[row][i] = sum of values[n] * dense[columns[n]][i] over the entries n of a sparse row, from
// offsets[row] to offsets[row + 1] (compressed row form, CSR), both families.
//   IN     element type
//   INDEX  C type of offsets and columns
//   WIDTH  columns that a work-item computes at a time
// An entry is reported and skipped if its column is not one of the `depth` rows of `dense`. The
// same holds for entries of rows whose offsets do not ascend from 0 to at most `entries`
// (`offset_site`). GPUs leave rows of more than MOST entries to sparse_mm_long, where a work-group
// shares a row (stripes.clh).
#include "common.clh"
#include "types.clh"
#include "grid.clh"
#include "math.clh"
#include "stripes.clh"

#define MATRICES                                                                              \
  CTENSOR(offsets), CTENSOR(columns), CTENSOR(values), CTENSOR(dense), TENSOR(out),           \
      const ulong rows, const ulong width
#define BOUNDS const long entries, const long depth, const int offset_site, FAULT_ARGUMENT
#define FIND_ENTRIES                                                                          \
  const long begin = CPTR(INDEX, offsets)[row], end = CPTR(INDEX, offsets)[row + 1];          \
  const bool ascends = 0 <= begin && begin <= end && end <= entries;                          \
  if (!ascends) {                                                                             \
    const bool begins = 0 <= begin && begin <= entries;                                       \
    report_fault(fault_word, offset_site, begins ? end : begin, entries);                     \
  }                                                                                           \
  const ulong first = ascends ? (ulong)begin : 0, last = ascends ? (ulong)end : 0;
// Declares the row of `dense` for entry n; does `continue` if there is none.
#define FIND_DENSE_ROW                                                                        \
  const long dense_row = CPTR(INDEX, columns)[n];                                              \
  if ((ulong)dense_row >= (ulong)depth) {                                                     \
    report_fault(FAULT_FORWARD, dense_row, depth);                                            \
    continue;                                                                                 \
  }                                                                                           \
  __global const MEM(IN) *source = CPTR(MEM(IN), dense) + (ulong)dense_row * width;

GRID __kernel void sparse_mm(MATRICES, const ulong per_item, BOUNDS) {
  FOR_UNITS(row, rows, per_item) {
    FIND_ENTRIES
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
          FIND_DENSE_ROW
          const T value = LOAD(IN, CPTR(MEM(IN), values), n);
          sum += value * CONVERT(T, LOADV(IN, source, i));
        }
        STOREV(IN, result, i, sum);
        continue;
      }
#endif
      for (; i < width && i < (block + 1) * WIDTH; ++i) {
        T sum = 0;
        for (ulong n = first; n < last; ++n) {
          FIND_DENSE_ROW
          sum += (T)LOAD(IN, CPTR(MEM(IN), values), n) * (T)LOAD(IN, source, i);
        }
        STORE(IN, result, i, sum);
      }
    }
  }
}

#ifdef MOST
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void sparse_mm_long(
    MATRICES, const StripeShare share, BOUNDS) {
  __local T partial[GROUP];
  STRIPES
  FOR_LONG(row, rows, FIND_ENTRIES, last - first)
    T sum = 0;
    if (column < width) {
      FOR_STRIPE(n, first, last) {
        FIND_DENSE_ROW
        sum += (T)LOAD(IN, CPTR(MEM(IN), values), n) * (T)LOAD(IN, source, column);
      }
    }
    partial[item] = sum;
    JOIN_STRIPES(partial[item] += partial[other];)
    if (stripe == 0 && column < width) {
      STORE(IN, PTR(MEM(IN), out), row * width + column, partial[item]);
    }
  END_LONG
}
#endif
