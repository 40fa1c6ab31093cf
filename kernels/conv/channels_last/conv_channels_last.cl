// Float convolution on CPU devices where the channels of a pixel are adjacent (channels_last): a
// pass as conv_pass.clh defines it, as a matrix product whose left operand is gathered by tiles.
//
// A register tile is MR positions by NV vectors of channels. For each tap, every position has the
// address of its pixel, or of a row of zeros outside of the source. Up to DEPTH channels of those
// pixels are copied to local memory, at constant distances. Without the copy, MR addresses would
// leave too few registers, and compilers would make gathers of the loads.
//
// Defines: VW, lanes of a vector; MR, NV; MAX_TAPS, at least the taps of a pass; DEPTH; NARROW, 1
// where a pixel has fewer channels than VW (a kernel with both copy loops needs more registers).
//
// conv_channels_last  grid (ceil(n / per_task), panels, groups). A pixel of the source has `pitch`
//     floats, of which a tap takes `channels` from channel group * channels on. The weights are
//     packed by conv_channels_last_pack.cl.
// pad_rows            grid (ceil(lines / per_task)): to[line][padded] = from[line][size] with
//     `before` zeros before it and zeros after it. `size`, `padded`, `before`: in floats.
#include "conv_pass.clh"
#include "conv_vector.clh"

#define NR (VW * NV)

// Whether one tap, or all taps, are inside of the source along a dimension.
#define IS_PIXEL(d, first, tap) \
  ((uint)((first) + (tap) * pass.spacing[d]) < (uint)pass.source[d])
#define IS_INSIDE(d, first) (IS_PIXEL(d, first, 0) && IS_PIXEL(d, first, pass.tap_count[d] - 1))

TASK __kernel void conv_channels_last(TENSOR(result), CTENSOR(source), CTENSOR(packed),
                                      CTENSOR(bias), const int has_bias, const Pass pass,
                                      const int pitch, const int per_task) {
  const int first = get_global_id(0) * per_task;
  const int last = min(pass.n, first + per_task);
  const int first_row = get_global_id(1) * NR, group = get_global_id(2);
  const int rows = min(NR, pass.rows - first_row);
  const int result_pitch = pass.groups * pass.rows;
  const size_t panels = get_global_size(1), panel_size = (size_t)pass.taps * pass.channels * NR;
  __global const float *images = CPTR(float, source) + group * pass.channels;
  __global const float *panel =
      CPTR(float, packed) + (group * panels + get_global_id(1)) * panel_size;
  __global const float *zeros = CPTR(float, packed) + pass.groups * panels * panel_size;
  __global float *out = PTR(float, result) + group * pass.rows + first_row;

  float lane[NR];
  for (int r = 0; r < NR; ++r)
    lane[r] = has_bias && r < rows ? CPTR(float, bias)[group * pass.rows + first_row + r] : 0.0f;
  VEC start[NV];
#pragma unroll
  for (int j = 0; j < NV; ++j) start[j] = LOAD_FLOATS(lane + j * VW);

  __local float pixels[MR * DEPTH];
  const int shares = max(1, DIVIDE_UP(pass.channels, DEPTH));
  const int share = DIVIDE_UP(pass.channels, shares);  // every share has at least a vector
  __global const float *from[MR][MAX_TAPS];
  size_t to[MR];
  long away[MAX_TAPS];  // from the first tap's pixel
  for (int z = 0, tap = 0; z < pass.tap_count[0]; ++z)
    for (int y = 0; y < pass.tap_count[1]; ++y)
      for (int x = 0; x < pass.tap_count[2]; ++x, ++tap)
        away[tap] = (((long)z * pass.spacing[0] * pass.source[1] + y * pass.spacing[1]) *
                         pass.source[2] + x * pass.spacing[2]) * pitch;
  for (int position = first; position < last; position += MR) {
    for (int i = 0; i < MR; ++i) {
      // Beyond the last position, the last one is computed again and not stored.
      const int q = min(position + i, last - 1);
      const int image = DIVIDE(q, BY_POSITIONS);
      const int in_image = q - image * pass.positions;
      const int line = DIVIDE(in_image, BY_WIDTH);
      const int slice = DIVIDE(line, BY_HEIGHT);
      const int x = in_image - line * pass.size[2], y = line - slice * pass.size[1];
      to[i] = ((size_t)image * pass.result_plane + pass.result_first +
               slice * pass.result_step[0] + y * pass.result_step[1] + x * pass.result_step[2]) *
              result_pitch;
      const int first_z = slice * pass.step[0] + pass.first[0];
      const int first_y = y * pass.step[1] + pass.first[1];
      const int first_x = x * pass.step[2] + pass.first[2];
      __global const float *pixel =
          images + ((long)image * pass.source_plane +
                    ((long)first_z * pass.source[1] + first_y) * pass.source[2] + first_x) * pitch;
      if (IS_INSIDE(0, first_z) && IS_INSIDE(1, first_y) && IS_INSIDE(2, first_x)) {
        for (int tap = 0; tap < pass.taps; ++tap) from[i][tap] = pixel + away[tap];
      } else {
        for (int z = 0, tap = 0; z < pass.tap_count[0]; ++z)
          for (int y = 0; y < pass.tap_count[1]; ++y)
            for (int x = 0; x < pass.tap_count[2]; ++x, ++tap)
              from[i][tap] = IS_PIXEL(0, first_z, z) && IS_PIXEL(1, first_y, y) &&
                                     IS_PIXEL(2, first_x, x)
                                 ? pixel + away[tap]
                                 : zeros;
      }
    }

    VEC sum[MR][NV];
#pragma unroll
    for (int i = 0; i < MR; ++i)
#pragma unroll
      for (int j = 0; j < NV; ++j) sum[i][j] = start[j];
    __global const float *weights = panel;
    for (int tap = 0; tap < pass.taps; ++tap) {
      for (int done = 0; done < pass.channels; done += share) {
        const int depth = min(share, pass.channels - done);
        for (int i = 0; i < MR; ++i) {
          __global const float *pixel = from[i][tap] + done;
#if NARROW
          for (int c = 0; c < depth; ++c) pixels[i * DEPTH + c] = pixel[c];
#else
          for (int c = 0; c < depth; c += VW) {
            const int at = min(c, depth - VW);  // the last vector may overlap the one before
            STORE_FLOATS(LOAD_FLOATS(pixel + at), pixels + i * DEPTH + at);
          }
#endif
        }
        for (size_t c = 0; c < depth; ++c, weights += NR) {
          VEC weight[NV];
#pragma unroll
          for (int j = 0; j < NV; ++j) weight[j] = LOAD_FLOATS(weights + j * VW);
#pragma unroll
          for (int i = 0; i < MR; ++i) {
            const VEC factor = (VEC)(pixels[i * DEPTH + c]);
#pragma unroll
            for (int j = 0; j < NV; ++j) sum[i][j] = fma(factor, weight[j], sum[i][j]);
          }
        }
      }
    }

#pragma unroll
    for (int i = 0; i < MR; ++i) {
      if (position + i < last) {
        if (rows == NR) {
#pragma unroll
          for (int j = 0; j < NV; ++j) STORE_FLOATS(sum[i][j], out + to[i] + j * VW);
        } else {
#pragma unroll
          for (int j = 0; j < NV; ++j) STORE_FLOATS(sum[i][j], lane + j * VW);
          for (int r = 0; r < rows; ++r) out[to[i] + r] = lane[r];
        }
      }
    }
  }
}

TASK __kernel void pad_rows(TENSOR(to), CTENSOR(from), const int lines, const int size,
                            const int padded, const int before, const int per_task) {
  const int first = get_global_id(0) * per_task;
  const int last = min(lines, first + per_task);
  for (int line = first; line < last; ++line) {
    __global const float *restrict row = CPTR(float, from) + (size_t)line * size;
    __global float *restrict padded_row = PTR(float, to) + (size_t)line * padded;
    for (int i = 0; i < before; ++i) padded_row[i] = 0.0f;
    for (int i = 0; i < size; ++i) padded_row[before + i] = row[i];
    for (int i = before + size; i < padded; ++i) padded_row[i] = 0.0f;
  }
}
