// Matrix products on GPUs: out = activation(alpha * op(A) op(B) + beta * C + residual), for a batch
// of matrices.
//
// Defines (in addition to the defines of tile_gpu.clh and epilogue.clh)
//   TRANS_A, TRANS_B  0: the operand is row-major, A[m][k], B[k][n]; 1: it is A[k][m], B[n][k]
//   QUADS_A, QUADS_B  1: stored rows begin at multiples of four elements, and their length is a
//                     multiple of four
//   HAS_C             0: C and beta are not used; C is not read
//   HAS_RESIDUAL      0: the residual is not read
//   PARTS             1: k is split into parts of part_depth, a multiple of TK. Part p of batch b
//                     is group b * parts + p in z, and writes its sums to out[p][b][m][n] in
//                     COMPUTE, for gemm_sum; alpha, beta, C and the residual are not used
//
// Work-group (ITEMS, 1, 1), global size (ITEMS * ceil(n / TN), ceil(m / TM), batches * parts). Any
// m, n >= 1, k >= 0. C may be `out` itself.
#include "gemm_sizes.clh"
#include "tile_gpu.clh"

// Adjacent work-items load adjacent elements of global memory, in both storage orders.
#if TRANS_A
#define A_ALONG TM
#define A_INDEX(row, p) ((p)*sizes.ld_a + (row))
#else
#define A_ALONG TK
#define A_INDEX(row, p) ((row)*sizes.ld_a + (p))
#endif
#if TRANS_B
#define B_ALONG TK
#define B_INDEX(p, column) ((column)*sizes.ld_b + (p))
#else
#define B_ALONG TN
#define B_INDEX(p, column) ((p)*sizes.ld_b + (column))
#endif

// The element that a load begins with: its index along the contiguous dimension, and along the
// other.
#define LOAD_ALONG(i, along, width) ((item + (i)*ITEMS) % ((along) / (width)) * (width))
#define LOAD_ACROSS(i, along, width) ((item + (i)*ITEMS) / ((along) / (width)))

#if QUADS_A
#define A_WIDTH 4
#define A_TYPE QUAD
#define A_LOAD(from) load_quad(from)
#else
#define A_WIDTH 1
#define A_TYPE COMPUTE
#define A_LOAD(from) LOAD(from, 0)
#endif
#if QUADS_B
#define B_WIDTH 4
#define B_TYPE QUAD
#define B_LOAD(from) load_quad(from)
#else
#define B_WIDTH 1
#define B_TYPE COMPUTE
#define B_LOAD(from) LOAD(from, 0)
#endif
#define A_LOADS (TM * TK / A_WIDTH / ITEMS)
#define B_LOADS (TN * TK / B_WIDTH / ITEMS)

#if TRANS_A
#define A_ROW(i) LOAD_ALONG(i, A_ALONG, A_WIDTH)
#define A_DEPTH(i) LOAD_ACROSS(i, A_ALONG, A_WIDTH)
#else
#define A_ROW(i) LOAD_ACROSS(i, A_ALONG, A_WIDTH)
#define A_DEPTH(i) LOAD_ALONG(i, A_ALONG, A_WIDTH)
#endif
#if TRANS_B
#define B_COLUMN(i) LOAD_ACROSS(i, B_ALONG, B_WIDTH)
#define B_DEPTH(i) LOAD_ALONG(i, B_ALONG, B_WIDTH)
#else
#define B_COLUMN(i) LOAD_ALONG(i, B_ALONG, B_WIDTH)
#define B_DEPTH(i) LOAD_ACROSS(i, B_ALONG, B_WIDTH)
#endif

// The address that a load begins with, for first depth 0. Beyond the last row or column, the last
// one is loaded again; its sums are not stored.
#define A_FROM(i)                                                               \
  (a_matrix + A_INDEX((long)min(first_row + A_ROW(i), sizes.m - (TRANS_A ? A_WIDTH : 1)), \
                      (long)A_DEPTH(i)))
#define B_FROM(i)                                                               \
  (b_matrix + B_INDEX((long)B_DEPTH(i), (long)min(first_column + B_COLUMN(i),   \
                                                  sizes.n - (TRANS_B ? 1 : B_WIDTH))))
// Depths beyond the end are zeros. A branch for each load would cost more than the load.
#define FETCH_BEGIN                                        \
  const long a_ahead = TRANS_A ? (long)next * sizes.ld_a : next;  \
  const long b_ahead = TRANS_B ? next : (long)next * sizes.ld_b;
#define FETCH_A(i)                                                                \
  FETCH(A_TYPE, A_LOAD, next + A_DEPTH(i) < last_depth, a_from[i] + a_ahead, a_matrix)
#define FETCH_B(i)                                                                \
  FETCH(B_TYPE, B_LOAD, next + B_DEPTH(i) < last_depth, b_from[i] + b_ahead, b_matrix)

// Stores four values in a row of a tile, or in a column.
ALWAYS_INLINE void put_row(__local COMPUTE *to, const QUAD value) { *(__local QUAD *)to = value; }
ALWAYS_INLINE void put_column(__local COMPUTE *to, const int pitch, const QUAD value) {
  to[0] = value.x;
  to[pitch] = value.y;
  to[2 * pitch] = value.z;
  to[3 * pitch] = value.w;
}
#define A_PLACE(tile, i) ((tile) + A_DEPTH(i) * A_PITCH + A_ROW(i))
#define B_PLACE(tile, i) ((tile) + B_DEPTH(i) * B_PITCH + B_COLUMN(i))
#if !QUADS_A
#define PUT_A(tile, i) (*A_PLACE(tile, i) = a_next[i])
#elif TRANS_A
#define PUT_A(tile, i) put_row(A_PLACE(tile, i), a_next[i])
#else
#define PUT_A(tile, i) put_column(A_PLACE(tile, i), A_PITCH, a_next[i])
#endif
#if !QUADS_B
#define PUT_B(tile, i) (*B_PLACE(tile, i) = b_next[i])
#elif TRANS_B
#define PUT_B(tile, i) put_column(B_PLACE(tile, i), B_PITCH, b_next[i])
#else
#define PUT_B(tile, i) put_row(B_PLACE(tile, i), b_next[i])
#endif

#if PARTS
#define OUT COMPUTE
#define OUT_LD sizes.n
#define FINISH(p, i, value) ((p)[i] = (value))
#else
#define OUT STORE
#define OUT_LD sizes.ld_out
#define FINISH STORE_TO
#endif

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void gemm(
    TENSOR(out), CTENSOR(a), CTENSOR(b), CTENSOR(c), CTENSOR(residual), const GemmSizes sizes,
    const COMPUTE alpha, const COMPUTE beta, const int parts, const int part_depth,
    const long batches) {
  const int item = get_local_id(0);
  const int x = item % SIDE_X;
  const int y = item / SIDE_X;
  const int first_row = group_id(1) * TM;
  const int first_column = group_id(0) * TN;
#if PARTS
  const long batch = group_id(2) / parts;
  const int part = group_id(2) % parts;
  const int first_depth = part * part_depth;
  const int last_depth = min(sizes.k, first_depth + part_depth);
#else
  const long batch = group_id(2);
  const int first_depth = 0;
  const int last_depth = sizes.k;
#endif
  __global const STORE *restrict a_matrix = CPTR(STORE, a) + batch * sizes.a_batch;
  __global const STORE *restrict b_matrix = CPTR(STORE, b) + batch * sizes.b_batch;
  __global const STORE *a_from[A_LOADS], *b_from[B_LOADS];
#pragma unroll
  for (int i = 0; i < A_LOADS; ++i) a_from[i] = A_FROM(i);
#pragma unroll
  for (int i = 0; i < B_LOADS; ++i) b_from[i] = B_FROM(i);

#include "tile_loop.clh"

#if PARTS
  __global OUT *out_matrix = PTR(OUT, out) + (part * batches + batch) * sizes.m * sizes.n;
#else
  __global OUT *out_matrix = PTR(STORE, out) + batch * sizes.out_batch;
#if HAS_C
  __global const STORE *c_matrix = CPTR(STORE, c) + batch * sizes.c_batch;
#endif
#if HAS_RESIDUAL
  __global const STORE *residual_matrix = CPTR(STORE, residual) + batch * sizes.residual_batch;
#endif
#endif
#pragma unroll
  for (int i = 0; i < WM; ++i) {
    const long row = first_row + TILE_ROW(i);
#pragma unroll
    for (int j = 0; j < WN; j += 4) {
      const long column = first_column + TILE_COLUMN(j);
      QUAD value = (QUAD)(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
#if !PARTS
      value *= alpha;
#define ADDEND_LANE(matrix, row_stride, column_stride, l)                           \
  (row < sizes.m && column + (l) < sizes.n                                          \
       ? LOAD(matrix, row * row_stride + (column + (l)) * column_stride) : (COMPUTE)0)
#define ADDEND(matrix, row_stride, column_stride)                                   \
  (QUAD)(ADDEND_LANE(matrix, row_stride, column_stride, 0),                         \
         ADDEND_LANE(matrix, row_stride, column_stride, 1),                         \
         ADDEND_LANE(matrix, row_stride, column_stride, 2),                         \
         ADDEND_LANE(matrix, row_stride, column_stride, 3))
#if HAS_C
      value += beta * ADDEND(c_matrix, sizes.c_row, sizes.c_column);
#endif
#if HAS_RESIDUAL
      value += ADDEND(residual_matrix, sizes.residual_row, sizes.residual_column);
#endif
      value = ACTIVATE(value);
#endif
      if (row < sizes.m) {
        __global OUT *to = out_matrix + row * OUT_LD + column;
        if (column < sizes.n) FINISH(to, 0, value.x);
        if (column + 1 < sizes.n) FINISH(to, 1, value.y);
        if (column + 2 < sizes.n) FINISH(to, 2, value.z);
        if (column + 3 < sizes.n) FINISH(to, 3, value.w);
      }
    }
  }
}
