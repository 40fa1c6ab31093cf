// Matrix products on GPUs: out = alpha * op(A) op(B) + beta * C, for a batch of matrices.
//
// Defines
//   STORE, COMPUTE    element type in memory, type of the arithmetic; COMPUTE_IS_INTEGER for integers
//   LOAD(p, i), STORE_TO(p, i, value)   memory access in COMPUTE
//   TRANS_A, TRANS_B  0: the operand is stored row-major as A[m][k], B[k][n]; 1: as A[k][m], B[n][k]
//   HAS_C             0: C and beta are not used; C is not read
//   TM, TN, TK        tile of a work-group, multiples of 16: 64, 64, 16
//
// Work-group (16, 16, 1), global size (16 * ceil(n / TN), 16 * ceil(m / TM), batch). Any m, n >= 1,
// k >= 0. The arguments are those of gemm_cpu.cl without rows_per_task. C may be `out` itself.
#include "element.clh"

#define SIDE 16
#define WM (TM / SIDE)
#define WN (TN / SIDE)
#define ITEMS (SIDE * SIDE)

#ifdef COMPUTE_IS_INTEGER
#define MUL_ADD(a, b, c) ((a) * (b) + (c))
#else
#define MUL_ADD(a, b, c) mad(a, b, c)
#endif

// Neighbouring work-items load neighbouring elements of global memory, whichever way it is stored.
#if TRANS_A
#define A_ROW(e) ((e) % TM)
#define A_DEPTH(e) ((e) / TM)
#define A_INDEX(row, p) ((p)*lda + (row))
#else
#define A_ROW(e) ((e) / TK)
#define A_DEPTH(e) ((e) % TK)
#define A_INDEX(row, p) ((row)*lda + (p))
#endif
#if TRANS_B
#define B_COLUMN(e) ((e) / TK)
#define B_DEPTH(e) ((e) % TK)
#define B_INDEX(p, column) ((column)*ldb + (p))
#else
#define B_COLUMN(e) ((e) % TN)
#define B_DEPTH(e) ((e) / TN)
#define B_INDEX(p, column) ((p)*ldb + (column))
#endif

__kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1))) void gemm(
    TENSOR(out), CTENSOR(a), CTENSOR(b), CTENSOR(c), const int m, const int n, const int k,
    const long lda, const long ldb, const long ld_out, const long c_row_stride,
    const long c_column_stride, const long a_batch, const long b_batch, const long c_batch,
    const long out_batch, const COMPUTE alpha, const COMPUTE beta) {
  // One element more in a row: writing a column then touches every bank of local memory.
  __local COMPUTE a_tile[TK][TM + 1];
  __local COMPUTE b_tile[TK][TN + 1];
  const int x = get_local_id(0);
  const int y = get_local_id(1);
  const int item = y * SIDE + x;
  const long first_row = (long)get_group_id(1) * TM;
  const long first_column = (long)get_group_id(0) * TN;
  const long batch = get_global_id(2);
  __global const STORE *restrict a_matrix = CPTR(STORE, a) + batch * a_batch;
  __global const STORE *restrict b_matrix = CPTR(STORE, b) + batch * b_batch;

  COMPUTE sum[WM][WN];
#pragma unroll
  for (int i = 0; i < WM; ++i)
#pragma unroll
    for (int j = 0; j < WN; ++j) sum[i][j] = 0;

  for (int k0 = 0; k0 < k; k0 += TK) {
#pragma unroll
    for (int load = 0; load < TM * TK / ITEMS; ++load) {
      const int e = item + load * ITEMS;
      const long row = first_row + A_ROW(e);
      const long p = k0 + A_DEPTH(e);
      a_tile[A_DEPTH(e)][A_ROW(e)] = row < m && p < k ? LOAD(a_matrix, A_INDEX(row, p)) : 0;
    }
#pragma unroll
    for (int load = 0; load < TN * TK / ITEMS; ++load) {
      const int e = item + load * ITEMS;
      const long column = first_column + B_COLUMN(e);
      const long p = k0 + B_DEPTH(e);
      b_tile[B_DEPTH(e)][B_COLUMN(e)] = column < n && p < k ? LOAD(b_matrix, B_INDEX(p, column)) : 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int p = 0; p < TK; ++p) {
      COMPUTE factor[WN];
#pragma unroll
      for (int j = 0; j < WN; ++j) factor[j] = b_tile[p][x + j * SIDE];
#pragma unroll
      for (int i = 0; i < WM; ++i) {
        const COMPUTE a_value = a_tile[p][y + i * SIDE];
#pragma unroll
        for (int j = 0; j < WN; ++j) sum[i][j] = MUL_ADD(a_value, factor[j], sum[i][j]);
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }

  __global STORE *out_matrix = PTR(STORE, out) + batch * out_batch;
#if HAS_C
  __global const STORE *c_matrix = CPTR(STORE, c) + batch * c_batch;
#endif
#pragma unroll
  for (int i = 0; i < WM; ++i) {
    const long row = first_row + y + i * SIDE;
#pragma unroll
    for (int j = 0; j < WN; ++j) {
      const long column = first_column + x + j * SIDE;
      if (row < m && column < n) {
        COMPUTE value = alpha * sum[i][j];
#if HAS_C
        value += beta * LOAD(c_matrix, row * c_row_stride + column * c_column_stride);
#endif
        STORE_TO(out_matrix, row * ld_out + column, value);
      }
    }
  }
}
