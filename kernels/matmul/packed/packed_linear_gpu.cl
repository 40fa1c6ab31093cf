// out[m][n] = x[m][k] * weights[n][k]^T on GPUs, with weights of 8 or 4 bits that are unpacked in
// registers: for few rows of x, where reading the weights dominates the time.
//
// Defines: as for packed_weights.clh (numbers as STORE, VW 4), and
//   MR           rows of x at a time; they share the weights that are read
//   LANES, ROWS  work-items that share a row of weights, and rows of a work-group
//
// Grid (LANES, ceil(n / ROWS) * ROWS, ceil(m / MR)), groups of LANES x ROWS. k is a multiple of
// `group`, and `group` is one of BLOCK where BITS is 4. Rows of x are x_stride apart.
#include "packed_weights.clh"

static inline float sum_of_lanes(const VEC value) {
  const float2 pair = value.lo + value.hi;
  return pair.x + pair.y;
}

__kernel __attribute__((reqd_work_group_size(LANES, ROWS, 1))) void packed_linear(
    TENSOR(out), CTENSOR(x), CTENSOR(weights), CTENSOR(scales), CTENSOR(zeros), const int m,
    const int n, const int k, const int group, const long x_stride) {
  __local float sums[MR * LANES * ROWS];
  const int lane = get_local_id(0);
  const int row = get_global_id(1);
  const int first_x = get_global_id(2) * MR;
  float total[MR];
#pragma unroll
  for (int i = 0; i < MR; ++i) total[i] = 0;

  if (row < n) {
    __global const char *bytes = CPTR(char, weights) + (size_t)row * k * BITS / 8;
    for (int p = lane * BLOCK; p + BLOCK <= k; p += LANES * BLOCK) {
      const BYTES weight = WEIGHT_BYTES(bytes + (size_t)p * BITS / 8);
      const float scale = GROUP_SCALE(row, p / group);
      const float offset = GROUP_OFFSET(row, p / group, scale);
#pragma unroll
      for (int i = 0; i < MR; ++i) {
        const Inputs inputs =
            load_inputs(CPTR(STORE, x) + min(first_x + i, m - 1) * x_stride + p);
        total[i] += scale * sum_of_lanes(add_products(weight, inputs, (VEC)(0)));
        if (ZEROS) total[i] += offset * sum_of_lanes(sum_of_inputs(inputs));
      }
    }
#if BITS == 8
    for (int p = k - k % VW + lane; p < k; p += LANES) {
#pragma unroll
      for (int i = 0; i < MR; ++i)
        total[i] += LOAD(CPTR(STORE, x), min(first_x + i, m - 1) * x_stride + p) * bytes[p] *
                    GROUP_SCALE(row, 0);
    }
#endif
  }
  const int item = get_local_id(1) * LANES + lane;
#pragma unroll
  for (int i = 0; i < MR; ++i) sums[i * LANES * ROWS + item] = total[i];
  for (int half_size = LANES / 2; half_size > 0; half_size /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < half_size) {
#pragma unroll
      for (int i = 0; i < MR; ++i)
        sums[i * LANES * ROWS + item] += sums[i * LANES * ROWS + item + half_size];
    }
  }
  if (lane == 0 && row < n) {
    for (int i = 0; i < MR && first_x + i < m; ++i)
      STORE_TO(PTR(STORE, out), (long)(first_x + i) * n + row, sums[i * LANES * ROWS + item]);
  }
}
