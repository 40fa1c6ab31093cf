// block_linear.clh on CPU devices. A task reads its weights as one stream, row after row.
// Grid (ceil(n / rows_per_task), ceil(m / MR)).
#include "block_linear.clh"

TASK __kernel void block_linear(BLOCK_LINEAR_ARGUMENTS, const int rows_per_task) {
  const int first_row = get_global_id(0) * rows_per_task;
  const int last_row = min(n, first_row + rows_per_task);
  const int first_x = get_global_id(1) * MR;
  const int expert = EXPERT(first_x);
  // Beyond the last row, computes the last row again without storing it.
  __global const STORE *inputs[MR];
  FOR(i, MR) inputs[i] = CPTR(STORE, x) + ROW_OF_X(min(first_x + i, m - 1)) * x_stride;
  for (int row = first_row; row < last_row; ++row) {
    __global const uchar *bytes =
        CPTR(uchar, blocks) + ((size_t)max(expert, 0) * n + row) * ROW_BYTES(parts);
    VEC sums[MR][2];
    FOR(i, MR) sums[i][0] = sums[i][1] = (VEC)(0);
    // When unrolled, the numbers of a block are read once, and bit positions are constants.
    for (int p = 0; p < parts; p += PARTS, bytes += BLOCK_BYTES) {
      FOR(part, PARTS) add_part(bytes, part, p + part, inputs, sums);
    }
    FOR(i, MR) {
      if (first_x + i >= m) break;
      const float sum = sum_of_lanes(sums[i][0] + sums[i][1]);
      STORE_TO(PTR(STORE, out), (long)(first_x + i) * n + row, expert < 0 ? 0 : sum);
    }
  }
}
