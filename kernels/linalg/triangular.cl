// Solves triangular systems of at most LEAF equations in place: a x = b for each column of b, where
// a is lower triangular. Strides, in elements, may be negative: an upper triangle read backwards is
// a lower one. Row i of x is b[i] - sum over k < i of a[i][k] x[k], divided by a[i][i]. Larger
// systems are solved by halves (solve_triangular in linalg.cpp).
//   LEAF; UNIT: the diagonal is ones; CONJUGATE: with conj(a) in place of a
// Grid: columns (work-items on GPUs, in vectors on CPUs) and matrices of the batch.
#include "matrix.clh"

typedef struct {
  long row, column, batch;
} Strides;

static inline V load_columns(__global const T *b, const long stride, const ulong count) {
#if WIDTH > 1
  if (stride == 1 && count >= WIDTH) return VLOAD(b, 0);
  T lanes[WIDTH];
  for (ulong l = 0; l < WIDTH; ++l) lanes[l] = l < count ? b[(long)l * stride] : 0;
  return CAT(vload, WIDTH)(0, lanes);
#else
  return *b;
#endif
}

static inline void store_columns(const V x, __global T *b, const long stride, const ulong count) {
#if WIDTH > 1
  if (stride == 1 && count >= WIDTH) {
    VSTORE(x, b, 0);
    return;
  }
  T lanes[WIDTH];
  CAT(vstore, WIDTH)(x, 0, lanes);
  for (ulong l = 0; l < min(count, (ulong)WIDTH); ++l) b[(long)l * stride] = lanes[l];
#else
  *b = x;
#endif
}

TEAM __kernel void triangular_solve(CTENSOR(a), TENSOR(b), const ulong n, const ulong columns,
                                    const ulong batches, const Strides a_by, const Strides b_by) {
  SHARED T matrix[LEAF][LEAF];
  for (ulong batch = get_group_id(1); batch < batches; batch += get_num_groups(1)) {
    __global const T *a_matrix = CPTR(T, a) + (long)batch * a_by.batch;
    __global T *b_matrix = PTR(T, b) + (long)batch * b_by.batch;
    FOR_TEAM(e, 0, n * n) {
      const ulong i = e / n, k = e % n;
      T value = NUMBER(0);
      if (k <= i) value = a_matrix[(long)i * a_by.row + (long)k * a_by.column];
#ifdef CONJUGATE
      value = CONJ(value);
#endif
      matrix[i][k] = value;
    }
    TEAM_BARRIER;
    for (ulong column = get_global_id(0) * WIDTH; column < columns;
         column += get_global_size(0) * WIDTH) {
      __global T *const at = b_matrix + (long)column * b_by.column;
      const ulong count = columns - column;
      V x[LEAF];
      for (ulong i = 0; i < n; ++i) {
        V value = load_columns(at + (long)i * b_by.row, b_by.column, count);
        for (ulong k = 0; k < i; ++k) value -= MUL(matrix[i][k], x[k]);
#ifndef UNIT
        value = DIV(value, matrix[i][i]);
#endif
        x[i] = value;
        store_columns(value, at + (long)i * b_by.row, b_by.column, count);
      }
    }
    TEAM_BARRIER;
  }
}
