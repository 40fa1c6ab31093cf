// A = L D L^T (HERMITIAN: L D L^H), in lower triangles. L has ones on its diagonal; D has blocks of
// one or two rows on its diagonal. Bunch, Kaufman: Some stable methods for calculating inertia and
// solving symmetric linear systems. Mathematics of Computation 31 (1977).
// Pivots are as in LAPACK's sytrf and hetrf: pivot k is the row, counted from 1, that was exchanged
// with row k. For a block of D with two rows, both pivots are negative, and the second row was
// exchanged.
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

// Decides whether k and k + 1 form a block, and which row is exchanged with the block's last row.
ALWAYS_INLINE int choose_pivot(__global const T *matrix, const ulong ld, const ulong n,
                               const ulong k, ulong *row, SCRATCH_ARGUMENT(R, sizes),
                               SCRATCH_ARGUMENT(int, places)) {
  const R diagonal = SIZE_OF_DIAGONAL(AT(k, k));
  R column_max = 0, row_max = 0;
  ulong largest = k, nowhere = 0;
  FOR_TEAM(i, k + 1, n) {
    if (ABS1(AT(i, k)) > column_max) {
      column_max = ABS1(AT(i, k));
      largest = i;
    }
  }
  TEAM_LARGEST(column_max, largest, sizes, places)
  *row = k;
  if (diagonal >= ALPHA * column_max) return 0;
  FOR_TEAM(j, k, largest) row_max = fmax(row_max, ABS1(AT(largest, j)));
  FOR_TEAM(i, largest + 1, n) row_max = fmax(row_max, ABS1(AT(i, largest)));
  TEAM_LARGEST(row_max, nowhere, sizes, places)
  if (diagonal >= ALPHA * column_max * (column_max / row_max)) return 0;
  *row = largest;
  return SIZE_OF_DIAGONAL(AT(largest, largest)) < ALPHA * row_max;
}

static inline void exchange(__global T *matrix, const ulong ld, const ulong n, const ulong a,
                            const ulong b, const ulong first) {
  FOR_TEAM(i, b + 1, n) SWAP(AT(i, a), AT(i, b));
  FOR_TEAM(i, a + 1, b) {
    const T kept = OTHER(AT(i, a));
    AT(i, a) = OTHER(AT(b, i));
    AT(b, i) = kept;
  }
  if (ITEM > 0) return;
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

// Chooses the pivot of column k and exchanges rows and columns. Returns the last column of the
// block.
ALWAYS_INLINE ulong pivot_column(__global T *matrix, __global int *pivot, const ulong ld,
                                 const ulong n, const ulong k, SCRATCH_ARGUMENT(R, sizes),
                                 SCRATCH_ARGUMENT(int, places)) {
  ulong row;
  const int two = choose_pivot(matrix, ld, n, k, &row, sizes, places);
  const ulong last = k + two;
  TEAM_BARRIER;
  if (row != last) exchange(matrix, ld, n, last, row, k);
  TEAM_BARRIER;
  if (ITEM == 0) {
    AT(k, k) = ON_DIAGONAL(AT(k, k));
    AT(last, last) = ON_DIAGONAL(AT(last, last));
    pivot[k] = pivot[last] = two ? -(int)(row + 1) : (int)(row + 1);
  }
  TEAM_BARRIER;
  return last;
}
// A column whose pivot is 0 is not changed.
#define HAS_PIVOT(k, last) ((last) > (k) || !IS_ZERO(AT(k, k)))

// Subtracts the block of D from column j, rows from `first` on, every `step`.
static inline void update_column(__global T *matrix, const ulong ld, const ulong n, const ulong k,
                                 const ulong last, const ulong j, const ulong first,
                                 const ulong step) {
  if (last > k) {
    const Pair pair = pair_of(matrix, ld, k, j);
    const T left = OTHER(pair.left), right = OTHER(pair.right);
    for (ulong i = first; i < n; i += step) {
      AT(i, j) -= MUL(AT(i, k), left) + MUL(AT(i, k + 1), right);
    }
  } else {
    const T factor = OTHER(DIV(AT(j, k), AT(k, k)));
    for (ulong i = first; i < n; i += step) AT(i, j) -= MUL(AT(i, k), factor);
  }
}

// Replaces the columns of the block by those of L.
static inline void finish_columns(__global T *matrix, const ulong ld, const ulong n, const ulong k,
                                  const ulong last) {
  FOR_TEAM(j, last + 1, n) {
    if (last > k) {
      const Pair pair = pair_of(matrix, ld, k, j);
      AT(j, k) = pair.left;
      AT(j, k + 1) = pair.right;
    } else {
      AT(j, k) = DIV(AT(j, k), AT(k, k));
    }
  }
}

// Grid: a team per matrix; columns are contiguous.
TEAM __kernel void ldl_factor(TENSOR(a), TENSOR(pivots), TENSOR(info), const ulong n,
                              const ulong batches, const ulong ld, const ulong batch_stride) {
  TEAM_SCRATCH(R, sizes);
  TEAM_SCRATCH(int, places);
  FOR_MATRICES(b, batches) {
    __global T *matrix = PTR(T, a) + b * batch_stride;
    __global int *pivot = PTR(int, pivots) + b * n;
    int failed = 0;
    for (ulong k = 0; k < n;) {
      const ulong last = pivot_column(matrix, pivot, ld, n, k, sizes, places);
      if (HAS_PIVOT(k, last)) {
        FOR_TEAM(j, last + 1, n) update_column(matrix, ld, n, k, last, j, j, 1);
        TEAM_BARRIER;
        finish_columns(matrix, ld, n, k, last);
      } else if (failed == 0) {
        failed = (int)k + 1;
      }
      TEAM_BARRIER;
      k = last + 1;
    }
    if (ITEM == 0) PTR(int, info)[b] = failed;
  }
}

// The same for large matrices on GPUs, in two launches for each block of D. `blocks` has its first
// and last column for each matrix, (-1, -1) before the first, (n, n) after the last. Grid: a team
// per matrix.
TEAM __kernel void ldl_pivot(TENSOR(a), TENSOR(pivots), TENSOR(info), TENSOR(blocks), const ulong n,
                             const ulong batches, const ulong ld, const ulong batch_stride) {
  TEAM_SCRATCH(R, sizes);
  TEAM_SCRATCH(int, places);
  FOR_MATRICES(b, batches) {
    __global T *matrix = PTR(T, a) + b * batch_stride;
    __global int *block = PTR(int, blocks) + 2 * b;
    const long before = block[0];
    ulong k = (ulong)(block[1] + 1), last = n;
    if (before >= (long)n) continue;
    if (before >= 0 && HAS_PIVOT((ulong)before, k - 1)) {
      finish_columns(matrix, ld, n, (ulong)before, k - 1);
    }
    if (k < n) last = pivot_column(matrix, PTR(int, pivots) + b * n, ld, n, k, sizes, places);
    TEAM_BARRIER;
    if (ITEM == 0) {
      block[0] = (int)k;
      block[1] = (int)last;
      __global int *failed = PTR(int, info) + b;
      if (k < n && !HAS_PIVOT(k, last) && *failed == 0) *failed = (int)k + 1;
    }
    TEAM_BARRIER;
  }
}

// Grid: a team for each column, in dimension 1, and matrices.
TEAM __kernel void ldl_update(TENSOR(a), CTENSOR(blocks), const ulong n, const ulong batches,
                              const ulong ld, const ulong batch_stride) {
  for (ulong b = get_global_id(2); b < batches; b += get_global_size(2)) {
    __global T *matrix = PTR(T, a) + b * batch_stride;
    const ulong k = (ulong)CPTR(int, blocks)[2 * b], last = (ulong)CPTR(int, blocks)[2 * b + 1];
    if (k >= n || !HAS_PIVOT(k, last)) continue;
    for (ulong j = last + 1 + get_global_id(1); j < n; j += get_global_size(1)) {
      update_column(matrix, ld, n, k, last, j, j + ITEM, TEAM_SIZE);
    }
  }
}

// x = A^-1 x from these factors. Pivots have 64 bits here; those that are not rows are reported and
// skipped. A launch handles the blocks of D that begin before row `until`, or going backwards those
// that end after it. `rows` has the next row of each column of x. Grid: columns of x, and matrices
// of the batch.
#define SOLVE_ARGUMENTS                                                                   \
  CTENSOR(a), CTENSOR(pivots), TENSOR(x), TENSOR(rows), const ulong until, const ulong n, \
      const ulong columns, const ulong batches, const ulong ld, const ulong batch_stride, \
      const ulong x_ld, const ulong x_batch, const ulong pivot_batch
#define FOR_COLUMNS(b, c)                                                      \
  for (ulong b = get_global_id(1); b < batches; b += get_global_size(1))       \
    for (ulong c = get_global_id(0); c < columns; c += get_global_size(0))
#define FIND_COLUMN                                                            \
  __global const T *matrix = CPTR(T, a) + b * batch_stride;                    \
  __global const long *pivot = CPTR(long, pivots) + b * pivot_batch;           \
  __global T *column = PTR(T, x) + b * x_batch + c * x_ld;                     \
  __global int *next = PTR(int, rows) + b * columns + c;

__kernel void ldl_forward(SOLVE_ARGUMENTS, FAULT_ARGUMENT) {
  FOR_COLUMNS(b, c) {
    FIND_COLUMN
    ulong k = (ulong)*next;
    while (k < until) {
      const int two = pivot[k] < 0 && k + 1 < n;
      const ulong last = k + two, row = abs(pivot[k]) - 1;
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
    *next = (int)k;
  }
}

__kernel void ldl_backward(SOLVE_ARGUMENTS) {
  FOR_COLUMNS(b, c) {
    FIND_COLUMN
    ulong end = (ulong)*next;
    while (end > until) {
      const ulong last = end - 1, k = last - (pivot[last] < 0 && last > 0 ? 1 : 0);
      for (ulong i = end; i < n; ++i) {
        column[last] -= MUL(OTHER(AT(i, last)), column[i]);
        if (k != last) column[k] -= MUL(OTHER(AT(i, k)), column[i]);
      }
      const ulong row = abs(pivot[last]) - 1;
      if (row < n && row != last) SWAP(column[last], column[row]);
      end = k;
    }
    *next = (int)end;
  }
}
