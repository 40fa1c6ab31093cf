// The Cholesky factor L of matrices A = L L^H of at most LEAF rows, in place in their lower
// triangles. linalg_cholesky.cpp factors larger matrices by halves. `info` of a matrix becomes
// first + k if its leading minor of order k is the first that is not positive definite. A matrix
// whose info is not 0 is not changed. Grid: a team per matrix.
#include "matrix.clh"

TEAM __kernel void cholesky(TENSOR(a), TENSOR(info), const ulong n, const ulong batches,
                            const long row_stride, const long column_stride,
                            const long batch_stride, const int first) {
  SHARED T block[LEAF][LEAF];  // column-major
  FOR_MATRICES(b, batches) {
    __global T *matrix = PTR(T, a) + (long)b * batch_stride;
    __global int *failed = PTR(int, info) + b;
    const int skip = *failed != 0;
    FOR_TEAM(e, 0, n * n) {
      block[e / n][e % n] = matrix[(long)(e % n) * row_stride + (long)(e / n) * column_stride];
    }
    TEAM_BARRIER;
    int order = 0;
    for (ulong j = 0; j < n && !skip && order == 0; ++j) {
      const R pivot = REAL(block[j][j]);
      if (!(pivot > 0)) {
        order = first + (int)j + 1;
      } else {
        const R root = sqrt(pivot);
        TEAM_BARRIER;
        FOR_TEAM(i, j, n) block[j][i] = i == j ? NUMBER(root) : block[j][i] / root;
        TEAM_BARRIER;
        FOR_TEAM(e, (j + 1) * n, n * n) {
          const ulong k = e / n, i = e % n;
          if (i >= k) block[k][i] -= MUL(block[j][i], CONJ(block[j][k]));
        }
      }
      TEAM_BARRIER;
    }
    if (!skip) {
      FOR_TEAM(e, 0, n * n) {
        if (e % n >= e / n) {
          matrix[(long)(e % n) * row_stride + (long)(e / n) * column_stride] = block[e / n][e % n];
        }
      }
      if (order != 0 && ITEM == 0) *failed = order;
    }
    TEAM_BARRIER;
  }
}
