// out[m][n] = x[m][k] * weights[n][k]^T on GPUs, with weights of 8 or 4 bits that are unpacked in
// registers: for few rows of x, where reading the weights dominates the time.
//
// Defines: as for packed_weights.clh (numbers as STORE), and
//   MR           rows of x at a time; they share the weights that are read
//   NR           rows of weights of a work-item; they share the vectors of x
//   LANES, ROWS  work-items that share rows of weights, and such shares of a work-group
//
// Grid (LANES, ceil(n / (ROWS * NR)) * ROWS, ceil(m / MR)), groups of LANES x ROWS. k is a multiple
// of `group`. With BITS 4, `group` is a multiple of BLOCK. Rows of x are x_stride apart.
#include "packed_weights.clh"
#include "lane_sum.clh"

#define FOR(i, n) _Pragma("unroll") for (int i = 0; i < n; ++i)
#define ITEMS (LANES * ROWS)

__kernel __attribute__((reqd_work_group_size(LANES, ROWS, 1))) void packed_linear(
    TENSOR(out), CTENSOR(x), CTENSOR(weights), CTENSOR(scales), CTENSOR(zeros), const int m,
    const int n, const int k, const int group, const long x_stride) {
  __local float sums[MR * NR * ITEMS];
  const int lane = get_local_id(0);
  const int first_row = get_global_id(1) * NR;
  const int first_x = get_global_id(2) * MR;
  float total[MR][NR];
  FOR(i, MR) FOR(r, NR) total[i][r] = 0;

  // Beyond the last row, computes the last row again without storing it.
  __global const char *bytes[NR];
  FOR(r, NR) bytes[r] = CPTR(char, weights) + (size_t)min(first_row + r, n - 1) * k * BITS / 8;
  for (int p = lane * BLOCK; p + BLOCK <= k; p += LANES * BLOCK) {
    const int g = p / group;
    float scale[NR], offset[NR];
    BYTES weight[NR];
    FOR(r, NR) {
      const int row = min(first_row + r, n - 1);
      weight[r] = WEIGHT_BYTES(bytes[r] + (size_t)p * BITS / 8);
      scale[r] = GROUP_SCALE(row, g);
      offset[r] = GROUP_OFFSET(row, g, scale[r]);
    }
    FOR(i, MR) {
      const Inputs inputs = load_inputs(CPTR(STORE, x) + min(first_x + i, m - 1) * x_stride + p);
      const float all = ZEROS ? sum_of_lanes(sum_of_inputs(inputs)) : 0;
      FOR(r, NR) {
        total[i][r] += scale[r] * sum_of_lanes(add_products(weight[r], inputs, (VEC)(0)));
        if (ZEROS) total[i][r] += offset[r] * all;
      }
    }
  }
#if BITS == 8
  for (int p = k - k % VW + lane; p < k; p += LANES) {
    FOR(i, MR) {
      const float element = LOAD(CPTR(STORE, x), min(first_x + i, m - 1) * x_stride + p);
      FOR(r, NR) total[i][r] += element * bytes[r][p] * GROUP_SCALE(min(first_row + r, n - 1), 0);
    }
  }
#endif
  const int item = get_local_id(1) * LANES + lane;
  FOR(i, MR) FOR(r, NR) sums[(i * NR + r) * ITEMS + item] = total[i][r];
  for (int half_size = LANES / 2; half_size > 0; half_size /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < half_size) {
      FOR(i, MR * NR) sums[i * ITEMS + item] += sums[i * ITEMS + item + half_size];
    }
  }
  if (lane == 0) {
    for (int i = 0; i < MR && first_x + i < m; ++i) {
      for (int r = 0; r < NR && first_row + r < n; ++r)
        STORE_TO(PTR(STORE, out), (long)(first_x + i) * n + first_row + r,
                 sums[(i * NR + r) * ITEMS + item]);
    }
  }
}
