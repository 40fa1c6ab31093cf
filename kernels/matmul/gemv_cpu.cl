// Products of a matrix and a vector on CPU devices, for a batch:
// out[i] = activation(alpha * sum_k A[i][k] * x[k] + beta * c[i] + residual[i]).
//
// Defines
//   as for element.clh, and
//   VW             lanes of a COMPUTE vector: 4, 8 or 16
//   TRANS_A        0: the matrix is A[m][k]; 1: it is A[k][m]
//   ACTIVATION(x)  applied to the finished sums (epilogue.clh)
//   HAS_C          0: c and beta are not used; c is not read
//   HAS_RESIDUAL   0: the residual is not read
//   X_SPACE        0: x is read in place. Else each task converts x once to local memory, which has
//                  room for this many numbers (at least k). Converting for each row would take
//                  longer than the products. Only if TRANS_A is 0
//   PAIRS          1: bfloat16, multiplied as pairs of neighbours along k (dot_bfloat16_cpu.clh).
//                  Only where TRANS_A is 0
//
// Kernel
//   gemv  grid (ceil(m / rows_per_task), 1, batch). A task computes rows_per_task numbers.
//
// c may be `out` itself; other overlaps are not allowed.
#include "element.clh"
#include "gemm_sizes.clh"
#include "mul_add_cpu.clh"

#define VEC CAT(COMPUTE, VW)
#define V COMPUTE
#include "epilogue.clh"
#include "lane_sum.clh"

#if TRANS_A
#define BLOCK 64  // vectors of sums at a time, which stay in the first level cache
#define ROWS_AT_ONCE 4
#else
#define AT_ONCE 4  // independent sums per row
// Adds the products of STEP numbers of a row from p on.
#if PAIRS
#include "dot_bfloat16_cpu.clh"
#define STEP (2 * VW)
#define ADD_PRODUCTS(sum, p) \
  dot_bfloat16(sum, LOAD_PAIRS(x_vector + (p)), LOAD_PAIRS(numbers + (p)))
#else
#define STEP VW
#define ADD_PRODUCTS(sum, p) MUL_ADD(X(p), LOAD_VEC(numbers + (p)), sum)
#if X_SPACE
#define X(p) x_copy[(p) / VW]
#else
#define X(p) LOAD_VEC(x_vector + (p))
#endif
#endif
#endif

TASK __kernel void gemv(TENSOR(out), CTENSOR(matrix), CTENSOR(x), CTENSOR(c), CTENSOR(residual),
                        const GemmSizes sizes, const COMPUTE alpha, const COMPUTE beta,
                        const int rows_per_task) {
  const int first_row = get_global_id(0) * rows_per_task;
  const int last_row = min(sizes.m, first_row + rows_per_task);
  const long batch = get_global_id(2);
  __global const STORE *restrict x_vector = CPTR(STORE, x) + batch * sizes.b_batch;
  __global const STORE *restrict rows = CPTR(STORE, matrix) + batch * sizes.a_batch;
  __global STORE *out_vector = PTR(STORE, out) + batch * sizes.out_batch;
#if HAS_C
  __global const STORE *c_vector = CPTR(STORE, c) + batch * sizes.c_batch;
#define PLUS_C(row) + beta * LOAD(c_vector, (row) * sizes.c_row)
#else
#define PLUS_C(row)
#endif
#if HAS_RESIDUAL
  __global const STORE *residual_vector = CPTR(STORE, residual) + batch * sizes.residual_batch;
#define PLUS_RESIDUAL(row) + LOAD(residual_vector, (row) * sizes.residual_row)
#else
#define PLUS_RESIDUAL(row)
#endif
#define FINISH(row, sum) \
  STORE_TO(out_vector, (row) * sizes.ld_out, \
           ACTIVATE(alpha * (sum) PLUS_C(row) PLUS_RESIDUAL(row)))

#if TRANS_A
  __local VEC sums[BLOCK];
  for (int block = first_row; block < last_row; block += BLOCK * VW) {
    const int count = min(BLOCK * VW, last_row - block);
    const int vectors = count / VW;
    const int tail = vectors * VW;
    __local COMPUTE *tail_sums = (__local COMPUTE *)(sums + vectors);
    for (int j = 0; j < DIVIDE_UP(count, VW); ++j) sums[j] = (VEC)(0);
    __global const STORE *restrict column = rows + block;
    int p = 0;
    for (; p + ROWS_AT_ONCE <= sizes.k; p += ROWS_AT_ONCE, column += ROWS_AT_ONCE * sizes.ld_a) {
      VEC factor[ROWS_AT_ONCE];
#pragma unroll
      for (int r = 0; r < ROWS_AT_ONCE; ++r) factor[r] = (VEC)(LOAD(x_vector, p + r));
      for (int j = 0; j < vectors; ++j) {
        VEC sum = sums[j];
#pragma unroll
        for (int r = 0; r < ROWS_AT_ONCE; ++r)
          sum = MUL_ADD(factor[r], LOAD_VEC(column + r * sizes.ld_a + (size_t)j * VW), sum);
        sums[j] = sum;
      }
      for (int l = tail; l < count; ++l)
        for (int r = 0; r < ROWS_AT_ONCE; ++r)
          tail_sums[l - tail] += LOAD(x_vector, p + r) * LOAD(column, r * sizes.ld_a + l);
    }
    for (; p < sizes.k; ++p, column += sizes.ld_a) {
      const COMPUTE factor = LOAD(x_vector, p);
      for (int j = 0; j < vectors; ++j)
        sums[j] = MUL_ADD((VEC)(factor), LOAD_VEC(column + (size_t)j * VW), sums[j]);
      for (int l = tail; l < count; ++l) tail_sums[l - tail] += factor * LOAD(column, l);
    }
    const __local COMPUTE *lanes = (const __local COMPUTE *)sums;
    for (int l = 0; l < count; ++l) FINISH((long)block + l, lanes[l]);
  }
#else
#if X_SPACE
  __local VEC x_copy[X_SPACE / VW];
  for (int v = 0; (v + 1) * VW <= sizes.k; ++v) x_copy[v] = LOAD_VEC(x_vector + v * VW);
#endif
  // One row at a time, so that the matrix is one stream, which processors prefetch.
  for (int row = first_row; row < last_row; ++row) {
    __global const STORE *restrict numbers = rows + row * sizes.ld_a;
    VEC sum[AT_ONCE];
#pragma unroll
    for (int r = 0; r < AT_ONCE; ++r) sum[r] = (VEC)(0);
    int p = 0;
    for (; p + AT_ONCE * STEP <= sizes.k; p += AT_ONCE * STEP) {
#pragma unroll
      for (int r = 0; r < AT_ONCE; ++r) sum[r] = ADD_PRODUCTS(sum[r], p + r * STEP);
    }
    for (; p + STEP <= sizes.k; p += STEP) sum[0] = ADD_PRODUCTS(sum[0], p);
    COMPUTE total = sum_of_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (; p < sizes.k; ++p) total += LOAD(x_vector, p) * LOAD(numbers, p);
    FINISH((long)row, total);
  }
#endif
}
