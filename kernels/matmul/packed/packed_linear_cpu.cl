// out[m][n] = x[m][k] * weights[n][k]^T on CPU devices, with weights of 8 or 4 bits that are
// unpacked in registers: for few rows of x, where reading the weights dominates the time.
//
// Defines: as for packed_weights.clh (numbers as STORE), and
//   MR   rows of x at a time; they share the weights that are read
//   NR   rows of weights at a time; they share the vectors of x
//
// Grid (ceil(n / rows_per_task), ceil(m / MR)). k is a multiple of `group`. With BITS 4, `group` is
// a multiple of BLOCK. Rows of x are x_stride apart.
#include "packed_weights.clh"
#include "lane_sum.clh"

TASK __kernel void packed_linear(TENSOR(out), CTENSOR(x), CTENSOR(weights), CTENSOR(scales),
                                 CTENSOR(zeros), const int m, const int n, const int k,
                                 const int group, const long x_stride, const int rows_per_task) {
  const int first_row = get_global_id(0) * rows_per_task;
  const int last_row = min(n, first_row + rows_per_task);
  const int first_x = get_global_id(1) * MR;
  const int groups = k / group;
  const size_t row_bytes = (size_t)k * BITS / 8;

  // Beyond the last row, computes the last row again without storing it.
  __global const STORE *restrict inputs[MR];
#pragma unroll
  for (int i = 0; i < MR; ++i) inputs[i] = CPTR(STORE, x) + min(first_x + i, m - 1) * x_stride;

  for (int row = first_row; row < last_row; row += NR) {
    __global const char *restrict bytes[NR];
    VEC total[MR][NR];
#pragma unroll
    for (int r = 0; r < NR; ++r) {
      bytes[r] = CPTR(char, weights) + min(row + r, last_row - 1) * row_bytes;
#pragma unroll
      for (int i = 0; i < MR; ++i) total[i][r] = (VEC)(0);
    }
    for (int g = 0; g < groups; ++g) {
      VEC sum[MR][NR];
      VEC all_inputs[MR];
#pragma unroll
      for (int i = 0; i < MR; ++i) {
        all_inputs[i] = (VEC)(0);
#pragma unroll
        for (int r = 0; r < NR; ++r) sum[i][r] = (VEC)(0);
      }
      int p = g * group;
      for (; p + BLOCK <= (g + 1) * group; p += BLOCK) {
        Inputs block[MR];
#pragma unroll
        for (int i = 0; i < MR; ++i) {
          block[i] = load_inputs(inputs[i] + p);
          if (ZEROS) all_inputs[i] += sum_of_inputs(block[i]);
        }
#pragma unroll
        for (int r = 0; r < NR; ++r) {
          const BYTES weight = WEIGHT_BYTES(bytes[r] + (size_t)p * BITS / 8);
#pragma unroll
          for (int i = 0; i < MR; ++i) sum[i][r] = add_products(weight, block[i], sum[i][r]);
        }
      }
#pragma unroll
      for (int r = 0; r < NR; ++r) {
        const int this_row = min(row + r, last_row - 1);
        const float scale = GROUP_SCALE(this_row, g);
        const float offset = GROUP_OFFSET(this_row, g, scale);
#pragma unroll
        for (int i = 0; i < MR; ++i) {
          total[i][r] = fma((VEC)(scale), sum[i][r], total[i][r]);
          if (ZEROS) total[i][r] = fma((VEC)(offset), all_inputs[i], total[i][r]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < MR; ++i) {
#pragma unroll
      for (int r = 0; r < NR; ++r) {
        if (first_x + i < m && row + r < last_row) {
          float value = sum_of_lanes(total[i][r]);
#if BITS == 8
          float tail = 0;
          for (int p = k - k % VW; p < k; ++p) tail += LOAD(inputs[i], p) * bytes[r][p];
          value += tail * GROUP_SCALE(row + r, 0);
#endif
          STORE_TO(PTR(STORE, out), (long)(first_x + i) * n + row + r, value);
        }
      }
    }
  }
}
