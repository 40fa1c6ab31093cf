// A = L D L^T (HERMITIAN: L D L^H), in lower triangles. L has ones on its diagonal; D has blocks of
// one or two rows on its diagonal. Bunch, Kaufman: Some stable methods for calculating inertia and
// solving symmetric linear systems. Mathematics of Computation 31 (1977).
// Pivots are as in LAPACK's sytrf and hetrf: the row, counted from 1, that was exchanged with this
// one. For a block of D of two rows both pivots are negative, and the second row was exchanged.
#include "matrix.clh"

#ifdef HERMITIAN
#define OTHER(x) CONJ(x)
#define ON_DIAGONAL(x) NUMBER(REAL(x))
#define SIZE_OF_DIAGONAL(x) fabs(REAL(x))
#else
#define OTHER(x) (x)
#define ON_DIAGONAL(x) (x)
#define SIZE_OF_DIAGONAL(x) ABS1(x)
#endif
#define AT(i, j) matrix[(j) * ld + (i)]
#define SWAP(x, y)    \
  {                   \
    const T kept = x; \
    x = y;            \
    y = kept;         \
  }
#define ALPHA L(0.64038820320220757)  // (1 + sqrt(17)) / 8

// Decides whether k and k + 1 form a block, and which row is exchanged with the last of them.
static inline int choose_pivot(__global const T *matrix, const ulong ld, const ulong n,
                               const ulong k, ulong *row) {
  const R diagonal = SIZE_OF_DIAGONAL(AT(k, k));
  R column_max = 0, row_max = 0;
  ulong largest = k;
  for (ulong i = k + 1; i < n; ++i) {
    if (ABS1(AT(i, k)) > column_max) {
      column_max = ABS1(AT(i, k));
      largest = i;
    }
  }
  *row = k;
  if (diagonal >= ALPHA * column_max) return 0;
  for (ulong j = k; j < largest; ++j) row_max = fmax(row_max, ABS1(AT(largest, j)));
  for (ulong i = largest + 1; i < n; ++i) row_max = fmax(row_max, ABS1(AT(i, largest)));
  if (diagonal >= ALPHA * column_max * (column_max / row_max)) return 0;
  *row = largest;
  return SIZE_OF_DIAGONAL(AT(largest, largest)) < ALPHA * row_max;
}

static inline void exchange(__global T *matrix, const ulong ld, const ulong n, const ulong a,
                            const ulong b, const ulong first) {
  for (ulong i = b + 1; i < n; ++i) SWAP(AT(i, a), AT(i, b));
  for (ulong i = a + 1; i < b; ++i) {
    const T kept = OTHER(AT(i, a));
    AT(i, a) = OTHER(AT(b, i));
    AT(b, i) = kept;
  }
  AT(b, a) = OTHER(AT(b, a));
  SWAP(AT(a, a), AT(b, b));
  if (first != a) SWAP(AT(a, first), AT(b, first));
}

// The elements of row j of L for the block of k and k + 1.
typedef struct {
  T left, right;
} Pair;
static inline Pair pair_of(__global const T *matrix, const ulong ld, const ulong k, const ulong j) {
  const T between = AT(k + 1, k);
  const T d11 = DIV(AT(k + 1, k + 1), between), d22 = DIV(AT(k, k), OTHER(between));
  const T factor = DIV(NUMBER(1), MUL(d11, d22) - NUMBER(1));
  const T a = AT(j, k), b = AT(j, k + 1);
  Pair pair;
  pair.left = MUL(factor, DIV(MUL(d11, a) - b, OTHER(between)));
  pair.right = MUL(factor, DIV(MUL(d22, b) - a, between));
  return pair;
}

// Grid: a team per matrix; columns are contiguous.
TEAM __kernel void ldl_factor(TENSOR(a), TENSOR(pivots), TENSOR(info), const ulong n,
                              const ulong batches, const ulong ld, const ulong batch_stride) {
  FOR_MATRICES(b, batches) {
    __global T *matrix = PTR(T, a) + b * batch_stride;
    __global int *pivot = PTR(int, pivots) + b * n;
    int failed = 0;
    for (ulong k = 0; k < n;) {
      ulong row;
      const int two = choose_pivot(matrix, ld, n, k, &row);
      const ulong last = k + two;
      TEAM_BARRIER;
      if (ITEM == 0) {
        if (row != last) exchange(matrix, ld, n, last, row, k);
        AT(k, k) = ON_DIAGONAL(AT(k, k));
        AT(last, last) = ON_DIAGONAL(AT(last, last));
        pivot[k] = pivot[last] = two ? -(int)(row + 1) : (int)(row + 1);
      }
      TEAM_BARRIER;
      if (two) {
        FOR_TEAM(j, k + 2, n) {
          const Pair pair = pair_of(matrix, ld, k, j);
          for (ulong i = j; i < n; ++i) {
            AT(i, j) -= MUL(AT(i, k), OTHER(pair.left)) + MUL(AT(i, k + 1), OTHER(pair.right));
          }
        }
        TEAM_BARRIER;
        FOR_TEAM(j, k + 2, n) {
          const Pair pair = pair_of(matrix, ld, k, j);
          AT(j, k) = pair.left;
          AT(j, k + 1) = pair.right;
        }
      } else if (!IS_ZERO(AT(k, k))) {
        FOR_TEAM(j, k + 1, n) {
          const T factor = OTHER(DIV(AT(j, k), AT(k, k)));
          for (ulong i = j; i < n; ++i) AT(i, j) -= MUL(AT(i, k), factor);
        }
        TEAM_BARRIER;
        FOR_TEAM(j, k + 1, n) AT(j, k) = DIV(AT(j, k), AT(k, k));
      } else if (failed == 0) {
        failed = (int)k + 1;
      }
      TEAM_BARRIER;
      k = last + 1;
    }
    if (ITEM == 0) PTR(int, info)[b] = failed;
  }
}

// x = A^-1 x from these factors. Rows that do not exist are reported and not exchanged.
// Grid: columns of x, and matrices of the batch.
__kernel void ldl_solve(CTENSOR(a), CTENSOR(pivots), TENSOR(x), const ulong n, const ulong columns,
                        const ulong batches, const ulong ld, const ulong batch_stride,
                        const ulong x_ld, const ulong x_batch, const ulong pivot_batch,
                        FAULT_ARGUMENT) {
  for (ulong b = get_global_id(1); b < batches; b += get_global_size(1)) {
    __global const T *matrix = CPTR(T, a) + b * batch_stride;
    __global const int *pivot = CPTR(int, pivots) + b * pivot_batch;
    for (ulong c = get_global_id(0); c < columns; c += get_global_size(0)) {
      __global T *column = PTR(T, x) + b * x_batch + c * x_ld;
      for (ulong k = 0; k < n;) {
        const int two = pivot[k] < 0 && k + 1 < n;
        const ulong last = k + two, row = (ulong)abs(pivot[k]) - 1;
        if (row >= n) {
          report_fault(FAULT_FORWARD, pivot[k], (long)n);
        } else if (row != last) {
          SWAP(column[last], column[row]);
        }
        for (ulong i = last + 1; i < n; ++i) {
          column[i] -= MUL(AT(i, k), column[k]);
          if (two) column[i] -= MUL(AT(i, last), column[last]);
        }
        if (two) {
          const T between = AT(last, k), upper = DIV(AT(k, k), OTHER(between)),
                  lower = DIV(AT(last, last), between);
          const T divisor = MUL(upper, lower) - NUMBER(1);
          const T first = DIV(column[k], OTHER(between)), second = DIV(column[last], between);
          column[k] = DIV(MUL(lower, first) - second, divisor);
          column[last] = DIV(MUL(upper, second) - first, divisor);
        } else {
          column[k] = DIV(column[k], AT(k, k));
        }
        k = last + 1;
      }
      for (ulong end = n; end > 0;) {
        const ulong last = end - 1, k = last - (pivot[last] < 0 && last > 0 ? 1 : 0);
        for (ulong i = end; i < n; ++i) {
          column[last] -= MUL(OTHER(AT(i, last)), column[i]);
          if (k != last) column[k] -= MUL(OTHER(AT(i, k)), column[i]);
        }
        const ulong row = (ulong)abs(pivot[last]) - 1;
        if (row < n && row != last) SWAP(column[last], column[row]);
        end = k;
      }
    }
  }
}
