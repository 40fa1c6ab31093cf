// Products with a vector on GPUs: out[i] = activation(alpha * sum_k matrix[i][k] * x[k] + beta *
// c[i] + residual[i]), for a batch. Defines: as for element.clh and epilogue.clh, and
//   TRANS_A         0: the matrix is stored row-major as [m][k]; 1: as [k][m]
//   HAS_C           0: C and beta are not used; C is not read
//   HAS_RESIDUAL    0: the residual is not read
//   QUADS           1: without TRANS_A; rows begin and end at multiples of four elements, and x has
//                   no gaps
//   LANES, ROWS     work-items of a group along the matrix's contiguous dimension, and along the
//                   other; powers of two. The items that share a row add their sums in a tree.
// Work-group (LANES, ROWS, 1); global size (LANES, ROWS * ceil(m / ROWS), batches), with TRANS_A
// (LANES * ceil(m / LANES), ROWS, batches).
#include "quad.clh"
#include "gemm_sizes.clh"
#define V COMPUTE
#include "epilogue.clh"

#define AT_ONCE 4  // loads in flight at a time
#if QUADS
#define PART QUAD
#define SUM(part) ((part).x + (part).y + (part).z + (part).w)
#define PRODUCT(p) (load_quad(numbers + (p) * 4) * load_quad(vector + (p) * 4))
#define DEPTH (sizes.k / 4)
#else
#define PART COMPUTE
#define SUM(part) (part)
#define PRODUCT(p) (LOAD(numbers, (p) * depth_stride) * LOAD(vector, (p) * sizes.ld_b))
#define DEPTH sizes.k
#endif

__kernel __attribute__((reqd_work_group_size(LANES, ROWS, 1))) void gemv(
    TENSOR(out), CTENSOR(matrix), CTENSOR(x), CTENSOR(c), CTENSOR(residual), const GemmSizes sizes,
    const COMPUTE alpha, const COMPUTE beta) {
  __local COMPUTE sums[LANES * ROWS];
#if TRANS_A
  const long row = get_global_id(0);
  const int share = get_local_id(1);
  const int shares = ROWS, apart = LANES;  // items that share a row: their number and distance
  const long row_stride = 1, depth_stride = sizes.ld_a;
#else
  const long row = get_global_id(1);
  const int share = get_local_id(0);
  const int shares = LANES, apart = 1;
  const long row_stride = sizes.ld_a, depth_stride = 1;
#endif
  const long batch = get_global_id(2);
  __global const STORE *restrict numbers = CPTR(STORE, matrix) + batch * sizes.a_batch;
  __global const STORE *restrict vector = CPTR(STORE, x) + batch * sizes.b_batch;
  PART part[AT_ONCE];
#pragma unroll
  for (int r = 0; r < AT_ONCE; ++r) part[r] = 0;
  if (row < sizes.m) {
    numbers += row * row_stride;
    long p = share;
    for (; p + (AT_ONCE - 1) * shares < DEPTH; p += AT_ONCE * shares) {
#pragma unroll
      for (int r = 0; r < AT_ONCE; ++r) part[r] += PRODUCT(p + r * shares);
    }
    for (; p < DEPTH; p += shares) part[0] += PRODUCT(p);
  }
  const int item = get_local_id(1) * LANES + get_local_id(0);
  const PART all = (part[0] + part[1]) + (part[2] + part[3]);
  sums[item] = SUM(all);
  for (int half_size = shares / 2; half_size > 0; half_size /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (share < half_size) sums[item] += sums[item + half_size * apart];
  }
  if (share == 0 && row < sizes.m) {
    COMPUTE value = alpha * sums[item];
#if HAS_C
    value += beta * LOAD(CPTR(STORE, c), batch * sizes.c_batch + row * sizes.c_row);
#endif
#if HAS_RESIDUAL
    value += LOAD(CPTR(STORE, residual), batch * sizes.residual_batch + row * sizes.residual_row);
#endif
    STORE_TO(PTR(STORE, out), batch * sizes.out_batch + row * sizes.ld_out, ACTIVATE(value));
  }
}
