// Matrix products on CPU devices: out = activation(alpha * op(A) op(B) + beta * C + residual), for
// a batch of matrices. Products with a vector: gemv_cpu.cl.
//
// Defines
//   as for element.clh, and
//   VW                lanes of a COMPUTE vector: 4, 8 or 16
//   MR, NV            register tile: MR rows by NV vectors
//   KC                rows of B that are packed at a time
//   TRANS_A, TRANS_B  0: the operand is row-major, A[m][k], B[k][n]; 1: it is A[k][m], B[n][k]
//   ACTIVATION(x)     applied to the finished sums (epilogue.clh)
//   HAS_C             0: C and beta are not used; C is not read
//   HAS_RESIDUAL      0: the residual is not read
//   PAIRS             1: A and B are bfloat16, multiplied as pairs of neighbours along k
//                     (dot_bfloat16_cpu.clh); STORE may be float
//   COPY_A            1: the rows of a tile are converted once, to local memory. A conversion for
//                     each use would take as long as the products. Always for PAIRS, else only
//                     where TRANS_A is 0
//   PARTIAL_ROWS      0: sums over more than KC products continue in `out`. Where STORE is less
//                     precise than COMPUTE, they continue in local memory, and this is the largest
//                     rows_per_task
//
// Kernel
//   gemm  grid (ceil(m / rows_per_task), ceil(n / (NV * VW)), batch). A task computes rows_per_task
//         rows (a multiple of MR) of a column panel. Any m, n >= 1, k >= 0.
//
// C may be `out` itself; other overlaps are not allowed.
//
// gemm works on panels and tiles, as Goto and van de Geijn do (Anatomy of High-Performance Matrix
// Multiplication. ACM TOMS 34, 2008). A panel of KC rows by NR = NV * VW columns of op(B) is packed
// in local memory, row by row, with zeros after the last column. The sums of a tile of MR rows by
// NR columns stay in registers. Each step in k multiplies MR numbers of op(A) with one row of the
// panel:
//
//                     panel of op(B)
//                   k [ NV vectors ]
//     op(A)         . [ NV vectors ]  KC rows
//     MR rows  [k..]  sums: MR x NV vectors
//
// The panel serves all rows of the task. Then the next KC rows of op(B) are packed.
#include "element.clh"
#include "gemm_sizes.clh"
#include "mul_add_cpu.clh"

#define VEC CAT(COMPUTE, VW)
#define NR (NV * VW)

#define V VEC
#define V_LANES VW
#include "epilogue.clh"

// Elements (row, k) of A: row r of a tile begins at r * A_ROW, and a step in k is A_STEP.
#if TRANS_A
#define A_ROW 1
#define A_STEP sizes.ld_a
#else
#define A_ROW sizes.ld_a
#define A_STEP 1
#endif

#if PAIRS
#include "gemm_pairs_cpu.clh"
#else
#include "gemm_numbers_cpu.clh"
#endif

#if HAS_C
#define C_PARAMS , __global const STORE *c, const long c_step, const COMPUTE beta
#define C_FORWARD(row, column) \
  , c_panel + (row) * sizes.c_row + (column) * sizes.c_column, sizes.c_column, beta
#else
#define C_PARAMS
#define C_FORWARD(row, column)
#endif
#if HAS_RESIDUAL
#define RESIDUAL_PARAMS , __global const STORE *residual, const long residual_step
#define RESIDUAL_FORWARD(row, column) \
  , residual_panel + (row) * sizes.residual_row + (column) * sizes.residual_column, \
    sizes.residual_column
#else
#define RESIDUAL_PARAMS
#define RESIDUAL_FORWARD(row, column)
#endif

// Loads a vector of elements that are `step` apart.
static inline VEC load_steps(__global const STORE *from, const long step) {
  if (step == 1) return LOAD_VEC(from);
  COMPUTE lane[VW];
  for (int l = 0; l < VW; ++l) lane[l] = LOAD(from, l * step);
  return CAT(vload, VW)(0, lane);
}

// Scales and writes a vector of sums, or its first `lanes`. `continues`: adds to the sums of
// earlier products. `is_last`: no products follow.
static inline void finish_vector(const VEC sum, __global STORE *out, const int lanes,
                                 const COMPUTE alpha, const bool continues,
                                 const bool is_last C_PARAMS RESIDUAL_PARAMS) {
  if (lanes >= VW) {
    VEC value = alpha * sum;
    if (continues) {
      value += LOAD_VEC(out);
    } else {
#if HAS_C
      value += beta * load_steps(c, c_step);
#endif
#if HAS_RESIDUAL
      value += load_steps(residual, residual_step);
#endif
    }
    STORE_VEC(is_last ? ACTIVATE(value) : value, out);
  } else {
    COMPUTE lane[VW];
    CAT(vstore, VW)(alpha * sum, 0, lane);
    for (int l = 0; l < lanes; ++l) {
      if (continues) {
        lane[l] += LOAD(out, l);
        continue;
      }
#if HAS_C
      lane[l] += beta * LOAD(c, l * c_step);
#endif
#if HAS_RESIDUAL
      lane[l] += LOAD(residual, l * residual_step);
#endif
    }
#ifdef ACTIVATION
    if (is_last) CAT(vstore, VW)(ACTIVATE(CAT(vload, VW)(0, lane)), 0, lane);
#endif
    for (int l = 0; l < lanes; ++l) STORE_TO(out, l, lane[l]);
  }
}

TASK __kernel void gemm(TENSOR(out), CTENSOR(a), CTENSOR(b), CTENSOR(c), CTENSOR(residual),
                        const GemmSizes sizes, const COMPUTE alpha, const COMPUTE beta,
                        const int rows_per_task) {
  __local PANEL_VEC panel[STEPS(KC) * NV];
#if COPY_A
  __local A_ITEM copied[COPY_SPACE];
#endif
#if PARTIAL_ROWS
  __local VEC partial[PARTIAL_ROWS * NV];
#endif
  const int first_row = get_global_id(0) * rows_per_task;
  const int last_row = min(sizes.m, first_row + rows_per_task);
  const int first_column = get_global_id(1) * NR;
  const int columns = min(NR, sizes.n - first_column);
  const long batch = get_global_id(2);
  __global const OPERAND *restrict a_matrix = CPTR(OPERAND, a) + batch * sizes.a_batch;
  __global const OPERAND *restrict b_panel =
      CPTR(OPERAND, b) + batch * sizes.b_batch + first_column * (TRANS_B ? sizes.ld_b : 1);
  __global STORE *out_panel = PTR(STORE, out) + batch * sizes.out_batch + first_column;
#if HAS_C
  __global const STORE *c_panel =
      CPTR(STORE, c) + batch * sizes.c_batch + first_column * sizes.c_column;
#endif
#if HAS_RESIDUAL
  __global const STORE *residual_panel =
      CPTR(STORE, residual) + batch * sizes.residual_batch + first_column * sizes.residual_column;
#endif

  int k0 = 0;
  do {  // Runs once even for k = 0, which stores beta * C.
    const int depth = min(KC, sizes.k - k0);
    const bool is_first = k0 == 0;
    const bool is_last = k0 + depth >= sizes.k;
    pack_b(panel, b_panel + k0 * (TRANS_B ? 1 : sizes.ld_b), sizes.ld_b, depth, columns);

    for (int row = first_row; row < last_row; row += MR) {
      const int rows = min(MR, last_row - row);
      VEC sum[MR][NV];
#pragma unroll
      for (int i = 0; i < MR; ++i)
#pragma unroll
        for (int j = 0; j < NV; ++j) sum[i][j] = (VEC)(0);

#if HAS_RESIDUAL
      if (is_first) {
        for (int i = 0; i < rows; ++i)
          for (int j = 0; j < columns; j += 64 / (int)sizeof(STORE))
            PREFETCH_RESIDUAL(residual_panel + (row + i) * sizes.residual_row +
                              j * sizes.residual_column);
      }
#endif
      __global const OPERAND *restrict a_tile = a_matrix + row * A_ROW + k0 * A_STEP;
      const __local PANEL_VEC *restrict b_row = panel;
#if COPY_A
      copy_a(copied, a_tile, sizes.ld_a, rows, depth, sizes.m - row);
      for (int p = 0; p < STEPS(depth); ++p, b_row += NV) {
#pragma unroll
        for (int i = 0; i < MR; ++i) {
          const PANEL_VEC factor = (PANEL_VEC)(copied[COPIED(i, p)]);
#pragma unroll
          for (int j = 0; j < NV; ++j) sum[i][j] = MULTIPLY(factor, b_row[j], sum[i][j]);
        }
      }
#else
      if (rows == MR) {
        for (int p = 0; p < depth; ++p, b_row += NV, a_tile += A_STEP) {
#pragma unroll
          for (int i = 0; i < MR; ++i) {
            const VEC factor = (VEC)(LOAD(a_tile, i * A_ROW));
#pragma unroll
            for (int j = 0; j < NV; ++j) sum[i][j] = MUL_ADD(factor, b_row[j], sum[i][j]);
          }
        }
      } else {
        // Beyond the last row, computes the last row again without storing it.
        for (int p = 0; p < depth; ++p, b_row += NV, a_tile += A_STEP) {
#pragma unroll
          for (int i = 0; i < MR; ++i) {
            const VEC factor = (VEC)(LOAD(a_tile, min(i, rows - 1) * A_ROW));
#pragma unroll
            for (int j = 0; j < NV; ++j) sum[i][j] = MUL_ADD(factor, b_row[j], sum[i][j]);
          }
        }
      }
#endif

#pragma unroll
      for (int i = 0; i < MR; ++i) {
        if (i < rows) {
#pragma unroll
          for (int j = 0; j < NV; ++j) {
            if (j * VW < columns) {
#if PARTIAL_ROWS
              __local VEC *partial_sum = partial + (row - first_row + i) * NV + j;
              if (!is_first) sum[i][j] += *partial_sum;
              if (!is_last) {
                *partial_sum = sum[i][j];
                continue;
              }
              const bool continues = false;
#else
              const bool continues = !is_first;
#endif
              finish_vector(sum[i][j], out_panel + (row + i) * sizes.ld_out + j * VW,
                            columns - j * VW, alpha, continues, is_last C_FORWARD(row + i, j * VW)
                            RESIDUAL_FORWARD(row + i, j * VW));
            }
          }
        }
      }
    }
    k0 += KC;
  } while (k0 < sizes.k);
}
