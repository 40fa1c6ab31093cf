// Convolution on CPU devices where the channels of a pixel are adjacent (channels_last): a pass as
// conv_pass.clh defines it, as a matrix product whose left operand is gathered by tiles.
//
// A register tile is MR positions by NV vectors of channels. For each tap, every position has the
// address of its pixel, or of a row of zeros outside of the source. Up to DEPTH items of those
// pixels are copied to local memory, at constant distances. Without the copy, MR addresses would
// leave too few registers, and compilers would make gathers of the loads.
//
// Defines, besides those of element.clh for float or bfloat16:
//   VW        lanes of a vector
//   MR, NV    the register tile
//   MAX_TAPS  at least the taps of a pass
//   DEPTH     items of a pixel that are copied at once
//   PAIRS     1 for bfloat16: an item is a pair of adjacent channels (dot_bfloat16_cpu.clh), else
//             it is a float
//   NARROW    1 where a part of a pixel has fewer channels than a vector of items, or an odd number
//             in pairs (a kernel with both copy loops needs more registers)
//
// conv_channels_last  grid (ceil(n / per_task), panels, groups). A pixel of the source has `pitch`
//     elements, of which a tap takes `channels` from channel group * channels on. The weights are
//     packed by conv_channels_last_pack.cl, and with PAIRS each float there is a pair.
// pad_rows            grid (ceil(lines / per_task)): to[line][padded] = from[line][size] with
//     `before` zeros before it and zeros after it. `size`, `padded`, `before`: in elements.
#include "element.clh"
#include "conv_pass.clh"

#define VEC CAT(float, VW)

#if PAIRS
#include "dot_bfloat16_cpu.clh"
#define ITEM uint
#define ITEM_VEC uint16
#define CHANNELS_OF_ITEM 2
#define MULTIPLY(a, b, sum) dot_bfloat16(sum, a, b)
#define LOAD_ITEMS LOAD_PAIRS
#else
#define ITEM float
#define ITEM_VEC VEC
#define CHANNELS_OF_ITEM 1
#define MULTIPLY(a, b, sum) fma(a, b, sum)
#define LOAD_ITEMS LOAD_VEC
#endif
#define ITEMS(channels) DIVIDE_UP(channels, CHANNELS_OF_ITEM)
#define CHANNELS_AT_ONCE (VW * CHANNELS_OF_ITEM)

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
  const size_t panels = get_global_size(1);
  const size_t panel_size = (size_t)pass.taps * ITEMS(pass.channels) * NR;
  __global const STORE *images = CPTR(STORE, source) + group * pass.channels;
  __global const ITEM *panel =
      CPTR(ITEM, packed) + (group * panels + get_global_id(1)) * panel_size;
  __global const STORE *zeros =
      (__global const STORE *)(CPTR(ITEM, packed) + pass.groups * panels * panel_size);
  __global STORE *out = PTR(STORE, result) + group * pass.rows + first_row;

  float lane[NR];
  for (int r = 0; r < NR; ++r)
    lane[r] =
        has_bias && r < rows ? LOAD(CPTR(STORE, bias), group * pass.rows + first_row + r) : 0.0f;
  VEC start[NV];
#pragma unroll
  for (int j = 0; j < NV; ++j) start[j] = CAT(vload, VW)(j, lane);

  __local ITEM pixels[MR * DEPTH];
  const int shares = max(1, DIVIDE_UP(ITEMS(pass.channels), DEPTH));
  // Every share has whole items and, except for NARROW, at least a vector of them.
  const int share = DIVIDE_UP(ITEMS(pass.channels), shares) * CHANNELS_OF_ITEM;
  __global const STORE *from[MR][MAX_TAPS];
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
      __global const STORE *pixel =
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
    __global const ITEM *weights = panel;
    for (int tap = 0; tap < pass.taps; ++tap) {
      for (int done = 0; done < pass.channels; done += share) {
        const int depth = min(share, pass.channels - done);
        for (int i = 0; i < MR; ++i) {
          __global const STORE *pixel = from[i][tap] + done;
          __local ITEM *copy = pixels + i * DEPTH;
#if NARROW && PAIRS
          for (int c = 0; c < depth; c += 2) copy[c / 2] = pair_at(pixel + c, 1, c + 1 < depth);
#elif NARROW
          for (int c = 0; c < depth; ++c) copy[c] = pixel[c];
#else
          for (int c = 0; c < depth; c += CHANNELS_AT_ONCE) {
            // The last vector may overlap the one before.
            const int at = min(c, depth - CHANNELS_AT_ONCE);
            CAT(vstore, VW)(LOAD_ITEMS(pixel + at), 0, copy + at / CHANNELS_OF_ITEM);
          }
#endif
        }
        for (size_t c = 0; c < ITEMS(depth); ++c, weights += NR) {
          ITEM_VEC weight[NV];
#pragma unroll
          for (int j = 0; j < NV; ++j) weight[j] = LOAD_ITEMS(weights + j * VW);
#pragma unroll
          for (int i = 0; i < MR; ++i) {
            const ITEM_VEC factor = (ITEM_VEC)(pixels[i * DEPTH + c]);
#pragma unroll
            for (int j = 0; j < NV; ++j) sum[i][j] = MULTIPLY(factor, weight[j], sum[i][j]);
          }
        }
      }
    }

#pragma unroll
    for (int i = 0; i < MR; ++i) {
      if (position + i < last) {
        if (rows == NR) {
#pragma unroll
          for (int j = 0; j < NV; ++j) STORE_VEC(sum[i][j], out + to[i] + j * VW);
        } else {
#pragma unroll
          for (int j = 0; j < NV; ++j) CAT(vstore, VW)(sum[i][j], j, lane);
          for (int r = 0; r < rows; ++r) STORE_TO(out, to[i] + r, lane[r]);
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
    __global const STORE *restrict row = CPTR(STORE, from) + (size_t)line * size;
    __global STORE *restrict padded_row = PTR(STORE, to) + (size_t)line * padded;
    for (int i = 0; i < before; ++i) padded_row[i] = 0;
    for (int i = 0; i < size; ++i) padded_row[before + i] = row[i];
    for (int i = before + size; i < padded; ++i) padded_row[i] = 0;
  }
}
