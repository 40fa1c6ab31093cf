// One-sided Jacobi, for singular values and eigenvalues (Hestenes, Inversion of matrices by
// biorthogonalization, 1958; Golub, Van Loan, Matrix Computations). It rotates pairs of columns of
// x until all are orthogonal, and applies the same rotations J to `rotated`. Afterwards the lengths
// of the columns of x are the singular values. x[batch][column][row] has `size` rows,
// rotated[batch][column][row] `rotated_size`. A team per matrix, or per pair of columns.
//
// A sweep rotates each pair of columns once. jacobi_round rotates disjoint pairs at the same time,
// as in a round-robin tournament. With 6 columns, column 5 stays, and the others move on by one.
//   round 0: 5-0 1-4 2-3    round 1: 5-1 2-0 3-4    round 2: 5-2 3-1 4-0    ...
#include "matrix.clh"

#ifdef GROUP
#define SCRATCH_ARGUMENTS SCRATCH_ARGUMENT(T, scratch), SCRATCH_ARGUMENT(R, scratch_real)
#define DECLARE_SCRATCH          \
  TEAM_SCRATCH(T, scratch);      \
  TEAM_SCRATCH(R, scratch_real)
#else
#define SCRATCH_ARGUMENTS T *scratch, R *scratch_real
#define DECLARE_SCRATCH T *const scratch = 0; R *const scratch_real = 0
#endif

// x = cosine x - sine phase y, y = sine x + cosine phase y
static inline void rotate_columns(__global T *x, __global T *y, const R cosine, const R sine,
                                  const T phase, const ulong n) {
  const T from_y = SCALE(phase, sine), stays_y = SCALE(phase, cosine);
  ulong i = ITEM;
#if WIDTH > 1
  FOR_VECTORS(i, n) {
    const V a = VLOAD(x, i), b = VLOAD(y, i);
    VSTORE(cosine * a - from_y * b, x, i);
    VSTORE(sine * a + stays_y * b, y, i);
  }
#endif
  for (; i < n; i += TEAM_SIZE) {
    const T a = x[i], b = y[i];
    x[i] = SCALE(a, cosine) - MUL(from_y, b);
    y[i] = SCALE(a, sine) + MUL(stays_y, b);
  }
}

// Rotates the columns p and q, and returns whether it did. It does not if they are orthogonal up to
// rounding, or if the squared length of one is noise (R_NOISE, for matrices with numbers of about
// 1): rotations of noise with columns of very different lengths may not converge.
ALWAYS_INLINE int rotate_pair(__global T *x, const ulong size, __global T *rotated,
                              const ulong rotated_size, const ulong p, const ulong q,
                              const R tolerance, SCRATCH_ARGUMENTS) {
  __global T *left = x + p * size, *right = x + q * size;
  const R left_square = team_sum_real(REAL(column_dot(left, left, size)), scratch_real);
  const R right_square = team_sum_real(REAL(column_dot(right, right, size)), scratch_real);
  const T product = team_sum(column_dot(left, right, size), scratch);
  const R length = ABS(product);
  const int rotates = fmin(left_square, right_square) > R_NOISE &&
                      length > tolerance * sqrt(left_square) * sqrt(right_square);
  if (rotates) {
    const R ratio = (right_square - left_square) / (2 * length);
    const R tangent = copysign((R)1, ratio) / (fabs(ratio) + hypot((R)1, ratio));
    const R cosine = 1 / hypot((R)1, tangent), sine = cosine * tangent;
    const T phase = SCALE(CONJ(product), 1 / length);
    rotate_columns(left, right, cosine, sine, phase, size);
    if (rotated_size > 0) {
      rotate_columns(rotated + p * rotated_size, rotated + q * rotated_size, cosine, sine, phase,
                     rotated_size);
    }
  }
  return rotates;
}

// Sweeps over all pairs until none is rotated. left[batch] is the number of rotations of the last
// sweep: 0 unless `sweeps` sweeps did not suffice.
TEAM __kernel void jacobi_sweeps(TENSOR(x), TENSOR(rotated), TENSOR(left), const ulong columns,
                                 const ulong size, const ulong rotated_size, const ulong batches,
                                 const int sweeps, const R tolerance) {
  DECLARE_SCRATCH;
  FOR_MATRICES(b, batches) {
    __global T *matrix = PTR(T, x) + b * columns * size;
    __global T *other = PTR(T, rotated) + b * columns * rotated_size;
    int rotations = 1;
    for (int sweep = 0; sweep < sweeps && rotations > 0; ++sweep) {
      rotations = 0;
      for (ulong p = 0; p + 1 < columns; ++p) {
        for (ulong q = p + 1; q < columns; ++q) {
          rotations += rotate_pair(matrix, size, other, rotated_size, p, q, tolerance, scratch,
                                   scratch_real);
          TEAM_BARRIER;
        }
      }
    }
    if (ITEM == 0) PTR(int, left)[b] = rotations;
  }
}

// One round of a sweep, which rotates disjoint pairs of columns (a round-robin tournament). Adds
// the number of rotations to left[batch]. Grid: pairs, matrices.
TEAM __kernel void jacobi_round(TENSOR(x), TENSOR(rotated), TENSOR(left), const ulong columns,
                                const ulong size, const ulong rotated_size, const ulong batches,
                                const ulong round, const R tolerance) {
  DECLARE_SCRATCH;
  const ulong others = columns + columns % 2 - 1, pairs = (others + 1) / 2;
  for (ulong b = get_group_id(1); b < batches; b += get_num_groups(1)) {
    __global T *matrix = PTR(T, x) + b * columns * size;
    __global T *other = PTR(T, rotated) + b * columns * rotated_size;
    int rotations = 0;
    for (ulong k = get_group_id(0); k < pairs; k += get_num_groups(0)) {
      const ulong p = k == 0 ? others : (round + k) % others, q = (round + others - k) % others;
      if (p < columns && q < columns) {
        rotations += rotate_pair(matrix, size, other, rotated_size, min(p, q), max(p, q),
                                 tolerance, scratch, scratch_real);
      }
    }
    if (ITEM == 0 && rotations > 0) atomic_add(PTR(volatile int, left) + b, rotations);
  }
}

// norms[batch][column]: the lengths of the columns of x.
TEAM __kernel void column_norms(CTENSOR(x), TENSOR(norms), const ulong size, const ulong count) {
  DECLARE_SCRATCH;
  FOR_MATRICES(c, count) {
    const R norm = column_norm(CPTR(T, x) + c * size, size, scratch_real);
    if (ITEM == 0) PTR(R, norms)[c] = norm;
  }
}

// out[batch][c] = x[batch][order[batch][c]]. NORMALIZE: divides by norms[batch][c]; the result is
// zeros if the norm is at most `least`. Grid: a team per column.
TEAM __kernel void take_columns(CTENSOR(x), CTENSOR(order), CTENSOR(norms), TENSOR(out),
                                const ulong columns, const ulong size, const ulong count,
                                const R least) {
  FOR_MATRICES(c, count) {
    const ulong from = c / columns * columns + CPTR(long, order)[c];
    R factor = 1;
#ifdef NORMALIZE
    const R norm = CPTR(R, norms)[c];
    factor = norm > least ? 1 / norm : 0;
#endif
    FOR_TEAM(i, 0, size) {
      PTR(T, out)[c * size + i] = SCALE(CPTR(T, x)[from * size + i], factor);
    }
  }
}

// The full Hermitian matrix for the lower (UPPER: upper) triangle of a; columns are contiguous.
TEAM __kernel void hermitian(CTENSOR(a), TENSOR(out), const ulong n, const ulong batches,
                             const ulong ld, const ulong batch_stride) {
  FOR_MATRICES(b, batches) {
    __global const T *from = CPTR(T, a) + b * batch_stride;
    __global T *to = PTR(T, out) + b * n * n;
    for (ulong c = 0; c < n; ++c) {
      FOR_TEAM(r, 0, n) {
#ifdef UPPER
        const bool stored = r <= c;
#else
        const bool stored = r >= c;
#endif
        T value = stored ? from[c * ld + r] : CONJ(from[r * ld + c]);
        if (r == c) value = NUMBER(REAL(value));
        to[c * n + r] = value;
      }
    }
  }
}
