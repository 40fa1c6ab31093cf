// Convolution on GPUs for groups of few rows, such as depthwise convolutions: a pass as
// conv_pass.clh defines it, without depth. A work-item computes LINES positions of a column, which
// share the elements that it loads. Adjacent work-items compute adjacent positions of a line.
//
// Defines: as for element.clh, and
//   LINES                       positions of a work-item
//   TAP_LINES, TAP_COLUMNS      tap_count[1], tap_count[2]
//   STEP, SPACING               step[1], spacing[1]; SPACING may be negative
//   HAS_BIAS                    0: bias is not read
//
// Global size (at least size[2], ceil(size[1] / LINES), images * groups * rows).
#include "element.clh"
#include "conv_pass.clh"

#ifdef COMPUTE_IS_INTEGER
#define MUL_ADD(a, b, c) ((a) * (b) + (c))
#else
#define MUL_ADD(a, b, c) mad(a, b, c)
#endif

// The number of source lines that a work-item reads. ABOVE lines are above the first position's
// first tap.
#define REACH (SPACING < 0 ? -(SPACING) : (SPACING))
#define ABOVE (SPACING < 0 ? (TAP_LINES - 1) * REACH : 0)
#define READ_LINES ((LINES - 1) * STEP + (TAP_LINES - 1) * REACH + 1)

__kernel void conv_direct(TENSOR(result), CTENSOR(source), CTENSOR(weight), CTENSOR(bias),
                          const Pass pass) {
  const int at_x = get_global_id(0);
  const int at_y = get_global_id(1) * LINES;
  const int plane = get_global_id(2);  // image, group, row
  if (at_x >= pass.size[2]) return;
  const int row = plane % pass.rows;
  const int group = plane / pass.rows % pass.groups;
  const int from_x = at_x * pass.step[2] + pass.first[2];
  const int top = at_y * STEP + pass.first[1] - ABOVE;
  __global const STORE *restrict values =
      CPTR(STORE, source) + (long)(plane / pass.rows) * pass.channels * pass.source_plane;
  __global const STORE *restrict filter = CPTR(STORE, weight) + group * pass.weight_group +
                                          row * pass.weight_row + pass.weight_first;
  COMPUTE sum[LINES];
#pragma unroll
  for (int r = 0; r < LINES; ++r) sum[r] = 0;
  for (int channel = 0; channel < pass.channels; ++channel) {
#pragma unroll
    for (int tx = 0; tx < TAP_COLUMNS; ++tx) {
      const int column = from_x + tx * pass.spacing[2];
      const bool inside = (uint)column < (uint)pass.source[2];
      COMPUTE read[READ_LINES];
#pragma unroll
      for (int r = 0; r < READ_LINES; ++r)
        read[r] = inside && (uint)(top + r) < (uint)pass.source[1]
                      ? LOAD(values, (top + r) * pass.source[2] + column) : 0;
#pragma unroll
      for (int ty = 0; ty < TAP_LINES; ++ty) {
        const COMPUTE factor = LOAD(filter, ty * pass.weight_step[1] + tx * pass.weight_step[2]);
#pragma unroll
        for (int r = 0; r < LINES; ++r)
          sum[r] = MUL_ADD(factor, read[r * STEP + ABOVE + ty * (SPACING)], sum[r]);
      }
    }
    values += pass.source_plane;
    filter += pass.weight_channel;
  }
  __global STORE *to = PTR(STORE, result) + (long)plane * pass.result_plane + pass.result_first +
                       at_x * pass.result_step[2];
#pragma unroll
  for (int r = 0; r < LINES; ++r) {
    if (at_y + r < pass.size[1]) {
      COMPUTE value = sum[r];
#if HAS_BIAS
      value += LOAD(CPTR(STORE, bias), group * pass.rows + row);
#endif
      STORE_TO(to, (at_y + r) * pass.result_step[1], value);
    }
  }
}
