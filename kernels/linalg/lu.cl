// The LU factorization of a panel by Gaussian elimination with partial pivoting, and row exchanges.
// Columns are contiguous. In place, as LAPACK's getf2: L, without its diagonal of ones, is below
// the diagonal, and U is the rest. linalg_lu.cpp factors larger matrices by halves.
#include "matrix.clh"

#ifdef CHECKED
#define FAULT_PARAMETER , FAULT_ARGUMENT
#else
#define FAULT_PARAMETER
#endif

// Factors `columns` columns of `rows` elements. Rows are exchanged only within the panel. PIVOT:
// the largest element of a column becomes its pivot. pivots: for each row, the row that it is
// exchanged with, counted from 1 + `first`. info: the first column with pivot 0, counted likewise.
// Grid: a team per matrix.
TEAM __kernel void lu_panel(TENSOR(a), TENSOR(pivots), TENSOR(info), const ulong rows,
                            const ulong columns, const ulong batches, const ulong ld,
                            const ulong batch_stride, const ulong pivot_stride, const int first) {
  TEAM_SCRATCH(R, largest);
  TEAM_SCRATCH(int, where);
  FOR_MATRICES(b, batches) {
    __global T *panel = PTR(T, a) + b * batch_stride;
    __global int *exchanged = PTR(int, pivots) + b * pivot_stride;
    __global int *failed = PTR(int, info) + b;
    for (ulong j = 0; j < min(rows, columns); ++j) {
      __global T *column = panel + j * ld;
      ulong pivot = j;
#ifdef PIVOT
      R best = -1;
      FOR_TEAM(i, j, rows) {
        const R size = ABS1(column[i]);
        if (size > best || (i == j && isnan(size))) {  // as in BLAS: a NaN only if first
          best = isnan(size) ? INFINITY : size;
          pivot = i;
        }
      }
      TEAM_LARGEST(best, pivot, largest, where)
#endif
      TEAM_BARRIER;
      if (pivot != j) {
        FOR_TEAM(k, 0, columns) {
          const T upper = panel[k * ld + j];
          panel[k * ld + j] = panel[k * ld + pivot];
          panel[k * ld + pivot] = upper;
        }
        TEAM_BARRIER;
      }
      const T diagonal = column[j];
      if (ITEM == 0) {
        exchanged[j] = first + (int)pivot + 1;
        if (IS_ZERO(diagonal) && *failed == 0) *failed = first + (int)j + 1;
      }
      if (!IS_ZERO(diagonal)) {
        FOR_TEAM(i, j + 1, rows) column[i] = DIV(column[i], diagonal);
        TEAM_BARRIER;
        for (ulong k = j + 1; k < columns; ++k) {
          column_add(column + j + 1, panel + k * ld + j + 1, -panel[k * ld + j], rows - j - 1);
        }
      }
      TEAM_BARRIER;
    }
  }
}

// Exchanges rows by `count` pivots, from the first to the last, or BACKWARDS. In the pivots, the
// first row has the number `offset` + 1. CHECKED: pivots outside of the `count` rows are reported
// and skipped. Grid: columns, and matrices of the batch.
__kernel void exchange_rows(TENSOR(a), CTENSOR(pivots), const ulong count, const ulong columns,
                            const ulong batches, const long row_stride, const long column_stride,
                            const long batch_stride, const ulong pivot_stride,
                            const long offset FAULT_PARAMETER) {
  for (ulong b = get_global_id(1); b < batches; b += get_global_size(1)) {
    __global const int *exchanged = CPTR(int, pivots) + b * pivot_stride;
    for (ulong c = get_global_id(0); c < columns; c += get_global_size(0)) {
      __global T *column = PTR(T, a) + (long)b * batch_stride + (long)c * column_stride;
      for (ulong n = 0; n < count; ++n) {
#ifdef BACKWARDS
        const long k = (long)(count - 1 - n);
#else
        const long k = (long)n;
#endif
        const long other = exchanged[k] - 1 - offset;
#ifdef CHECKED
        if (other < 0 || other >= (long)count) {
          report_fault(FAULT_FORWARD, exchanged[k], (long)count);
          continue;
        }
#endif
        if (other != k) {
          const T upper = column[k * row_stride];
          column[k * row_stride] = column[other * row_stride];
          column[other * row_stride] = upper;
        }
      }
    }
  }
}

// Applies the exchanges to `permutation`, which has `size` numbers.
// Grid: a work-item per matrix.
__kernel void unpack_pivots(TENSOR(permutation), CTENSOR(pivots), const ulong batches,
                            const ulong size, const ulong count, const ulong length,
                            FAULT_ARGUMENT) {
  for (ulong b = get_global_id(0); b < batches; b += get_global_size(0)) {
    __global long *numbers = PTR(long, permutation) + b * size;
    __global const int *exchanged = CPTR(int, pivots) + b * length;
    for (ulong k = 0; k < count; ++k) {
      const ulong other = (ulong)((long)exchanged[k] - 1);  // pivots below 1 become too large
      if (other >= size) {
        report_fault(FAULT_FORWARD, exchanged[k], (long)size);
        continue;
      }
      const long upper = numbers[k];
      numbers[k] = numbers[other];
      numbers[other] = upper;
    }
  }
}
