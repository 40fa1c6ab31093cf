// Householder reflectors H = 1 - tau v v^H in LAPACK's layout: v has a 1 on the diagonal of a
// matrix, and its other elements are below. Columns are contiguous. A team per matrix.
//
//   after qr_panel, for 4 x 3:   R  R  R        v_j is 1 on the diagonal
//                                v1 R  R        and 0 above it
//                                v1 v2 R
//                                v1 v2 v3
//
// block_reflector joins the reflectors of a panel: H1 H2 ... = 1 - V t V^H (the compact WY form).
// Schreiber, Van Loan: A storage-efficient WY representation. SIAM J. Sci. Stat. Comput. 10 (1989).
#include "matrix.clh"

// QR factorization of a panel; tau as in LAPACK.
TEAM __kernel void qr_panel(TENSOR(a), TENSOR(tau), const ulong rows, const ulong columns,
                            const ulong batches, const ulong ld, const ulong batch_stride,
                            const ulong tau_stride) {
  TEAM_SCRATCH(T, scratch);
#ifdef COMPUTE_IS_COMPLEX
  TEAM_SCRATCH(R, scratch_real);
#else
#define scratch_real scratch
#endif
  FOR_MATRICES(b, batches) {
    __global T *panel = PTR(T, a) + b * batch_stride;
    __global T *factors = PTR(T, tau) + b * tau_stride;
    for (ulong j = 0; j < min(rows, columns); ++j) {
      __global T *column = panel + j * ld + j;
      const ulong below = rows - j - 1;
      T alpha = column[0];
      R rest = column_norm(column + 1, below, scratch_real);
      T factor = NUMBER(0);
#ifdef COMPUTE_IS_COMPLEX
      const bool reflects = rest != 0 || alpha.y != 0;
#else
      const bool reflects = rest != 0;
#endif
      if (reflects) {
        // Columns may be dependent; what remains are rounding errors, which may be too small to
        // divide by.
        const R raise = hypot(ABS(alpha), rest) < 1 / R_RAISE ? R_RAISE : 1;
        if (raise > 1) {
          TEAM_BARRIER;
          column_scale(column, NUMBER(raise), below + 1);
          TEAM_BARRIER;
          alpha = column[0];
          rest = column_norm(column + 1, below, scratch_real);
        }
        const R beta = -copysign(hypot(ABS(alpha), rest), REAL(alpha));
        const T inverse = DIV(NUMBER(1), alpha - NUMBER(beta));
#ifdef COMPUTE_IS_COMPLEX
        factor = COMPLEX((beta - alpha.x) / beta, -alpha.y / beta);
#else
        factor = (beta - alpha) / beta;
#endif
        TEAM_BARRIER;
        column_scale(column + 1, inverse, below);
        if (ITEM == 0) column[0] = NUMBER(beta / raise);
        TEAM_BARRIER;
        for (ulong k = j + 1; k < columns; ++k) {
          __global T *other = panel + k * ld + j;
          const T first = other[0];
          const T dot = first + team_sum(column_dot(column + 1, other + 1, below), scratch);
          const T change = -MUL(CONJ(factor), dot);
          column_add(column + 1, other + 1, change, below);
          TEAM_BARRIER;
          if (ITEM == 0) other[0] = first + change;
        }
      }
      if (ITEM == 0) factors[j] = factor;
      TEAM_BARRIER;
    }
  }
}

// Copies the vectors, without R, to dense v[batch][column][row].
TEAM __kernel void reflectors(CTENSOR(a), TENSOR(v), const ulong rows, const ulong columns,
                              const ulong batches, const ulong ld, const ulong batch_stride) {
  FOR_MATRICES(b, batches) {
    for (ulong c = 0; c < columns; ++c) {
      __global const T *from = CPTR(T, a) + b * batch_stride + c * ld;
      __global T *to = PTR(T, v) + (b * columns + c) * rows;
      FOR_TEAM(r, 0, rows) to[r] = r > c ? from[r] : NUMBER(r == c);
    }
  }
}

// The upper triangle t[batch][column][row] with H1 H2 ... = 1 - V t V^H, from `products` V^H V and
// tau.
TEAM __kernel void block_reflector(CTENSOR(products), CTENSOR(tau), TENSOR(t), const ulong size,
                                   const ulong batches, const ulong tau_stride) {
  FOR_MATRICES(b, batches) {
    __global const T *product = CPTR(T, products) + b * size * size;
    __global const T *factors = CPTR(T, tau) + b * tau_stride;
    __global T *triangle = PTR(T, t) + b * size * size;
    for (ulong c = 0; c < size; ++c) {
      FOR_TEAM(r, 0, size) {
        T sum = NUMBER(0);
        for (ulong k = r; k < c; ++k) sum += MUL(triangle[k * size + r], product[c * size + k]);
        triangle[c * size + r] = r < c ? -MUL(factors[c], sum) : r == c ? factors[c] : NUMBER(0);
      }
      TEAM_BARRIER;
    }
  }
}
