// block_linear.clh on GPUs. Adjacent work-items have adjacent parts.
//   LANES, ROWS   work-items that share a row of weights, a power of two, and such rows of a
//                 work-group
// Grid (LANES, ceil(n / ROWS) * ROWS, ceil(m / MR)), groups of LANES x ROWS.
#include "block_linear.clh"

#define ITEMS (LANES * ROWS)

__kernel __attribute__((reqd_work_group_size(LANES, ROWS, 1))) void block_linear(
    BLOCK_LINEAR_ARGUMENTS) {
  __local float shared[MR * ITEMS];
  const int lane = get_local_id(0), item = get_local_id(1) * LANES + lane;
  const int row = get_global_id(1), first_x = get_global_id(2) * MR;
  const int expert = EXPERT(first_x);
  // Beyond the last row, computes the last row again without storing it.
  __global const uchar *bytes =
      CPTR(uchar, blocks) + ((size_t)max(expert, 0) * n + min(row, n - 1)) * ROW_BYTES(parts);
  __global const STORE *inputs[MR];
  VEC sums[MR][2];
  FOR(i, MR) {
    inputs[i] = CPTR(STORE, x) + ROW_OF_X(min(first_x + i, m - 1)) * x_stride;
    sums[i][0] = sums[i][1] = (VEC)(0);
  }
  for (int p = lane; p < parts; p += LANES) {
    add_part(bytes + (size_t)(p / PARTS) * BLOCK_BYTES, p % PARTS, p, inputs, sums);
  }
  FOR(i, MR) shared[i * ITEMS + item] = sum_of_lanes(sums[i][0] + sums[i][1]);
  for (int half_size = LANES / 2; half_size > 0; half_size /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < half_size) {
      FOR(i, MR) shared[i * ITEMS + item] += shared[i * ITEMS + item + half_size];
    }
  }
  if (lane == 0 && row < n) {
    for (int i = 0; i < MR && first_x + i < m; ++i) {
      const float sum = shared[i * ITEMS + item];
      STORE_TO(PTR(STORE, out), (long)(first_x + i) * n + row, expert < 0 ? 0 : sum);
    }
  }
}
