// The weight gradient of channels_last convolutions on CPU devices: for each tap, the sum over
// positions of a channel of the input times a vector of channels of the output's gradient.
//
// A task copies blocks of positions to local memory: the gradients of a panel of NR = NV * VW
// output channels, and `chunk` channels of the patch of pixels that the block's taps read, with
// zeros outside of the source. Then, for each tap, a tile of MR channels by NV vectors stays in
// registers for all positions of the block.
//
// Defines: VW, MR, NV; GRADS, PATCH, the local memory in floats
//
// grid (panels, groups, parts): parts[part][group][panel][tap][channel][NR], which
// unpack_channels_last adds up. `pass` is the forward pass, `pitch` the floats of a pixel of the
// source. With `joins_taps`, a `chunk` is a whole pixel, and the taps of a row are joined into one
// (join_taps_of_rows), whose channels are adjacent in the patch.
#include "conv_vector.clh"
#include "conv_pass.clh"

#define NR (VW * NV)

typedef struct {
  int columns, lines, slices;  // positions; slices: of all images
  int width, height;           // size of the patch, in pixels
  int chunk, joins_taps;
  int blocks, per_part;
} Block;

TASK __kernel void conv_channels_last_weight(TENSOR(parts), CTENSOR(source), CTENSOR(result),
                                             const Pass pass, const int pitch, const Block block) {
  __local VEC grads[GRADS / VW];
  __local float patch[PATCH + MR];
  const int first_row = get_global_id(0) * NR, group = get_global_id(1);
  const int rows = min(NR, pass.rows - first_row);
  const int result_pitch = pass.groups * pass.rows;
  const int across = DIVIDE_UP(pass.size[2], block.columns);
  const int down = DIVIDE_UP(pass.size[1], block.lines);
  const int all_slices = pass.images * pass.size[0];
  const bool few = block.joins_taps;
  const int depth = few ? pass.channels : block.chunk;  // floats of a pixel in the patch
  const size_t panel =
      ((size_t)get_global_id(2) * pass.groups + group) * get_global_size(0) + get_global_id(0);
  __global float *sums = PTR(float, parts) + panel * pass.taps * pass.channels * NR;
  __global const float *images = CPTR(float, source) + (few ? 0 : group * pass.channels);

  const int first_block = get_global_id(2) * block.per_part;
  const int last_block = min(block.blocks, first_block + block.per_part);
  for (int b = first_block; b < last_block; ++b) {
    const int band = b / across;
    const int first_x = (b - band * across) * block.columns;
    const int first_y = (band % down) * block.lines, first_slice = band / down * block.slices;
    const int columns = min(block.columns, pass.size[2] - first_x);
    const int lines = min(block.lines, pass.size[1] - first_y);
    const int slices = min(block.slices, all_slices - first_slice);

    __local VEC *grad = grads;
    for (int slice = 0; slice < slices; ++slice) {
      for (int y = 0; y < lines; ++y) {
        __global const float *restrict from =
            CPTR(float, result) +
            (((size_t)(first_slice + slice) * pass.size[1] + first_y + y) * pass.size[2] +
             first_x) * result_pitch + group * pass.rows + first_row;
        for (int x = 0; x < columns; ++x, from += result_pitch, grad += NV) {
          if (rows == NR) {
#pragma unroll
            for (int j = 0; j < NV; ++j) grad[j] = LOAD_FLOATS(from + j * VW);
          } else {
            __local float *lane = (__local float *)grad;
            for (int r = 0; r < NR; ++r) lane[r] = r < rows ? from[r] : 0.0f;
          }
        }
      }
    }

    for (int tap_z = 0; tap_z < pass.tap_count[0]; ++tap_z) {
      for (int c = 0; c < pass.channels; c += depth) {
        const int channels = min(depth, pass.channels - c);
        const int copied = few ? block.chunk : channels;
        __local float *pixel = patch;
        for (int slice = 0; slice < slices; ++slice) {
          const int image = (first_slice + slice) / pass.size[0];
          const int z = (first_slice + slice - image * pass.size[0]) * pass.step[0] +
                        pass.first[0] + tap_z * pass.spacing[0];
          for (int line = 0; line < block.height; ++line) {
            const int y = first_y * pass.step[1] + pass.first[1] + line;
            const bool inside = (uint)z < (uint)pass.source[0] && (uint)y < (uint)pass.source[1];
            int x = first_x * pass.step[2] + pass.first[2];
            __global const float *from =
                images + (((size_t)image * pass.source[0] + z) * pass.source[1] + y) *
                             pass.source[2] * pitch + c;
            for (int end = x + block.width; x < end; ++x, pixel += block.chunk) {
              if (!inside || (uint)x >= (uint)pass.source[2]) {
                for (int i = 0; i < block.chunk; ++i) pixel[i] = 0.0f;
              } else if (copied == VW) {
                STORE_FLOATS(LOAD_FLOATS(from + (size_t)x * pitch), pixel);
              } else {
                for (int i = 0; i < copied; ++i) pixel[i] = from[(size_t)x * pitch + i];
              }
            }
          }
        }

        const int window = pass.tap_count[1] * pass.tap_count[2];
        for (int tap = 0; tap < window; ++tap) {
          const int tap_y = tap / pass.tap_count[2], tap_x = tap - tap_y * pass.tap_count[2];
          const int away =
              (tap_y * pass.spacing[1] * block.width + tap_x * pass.spacing[2]) * block.chunk;
          __global float *tap_sums =
              sums + ((size_t)(tap_z * window + tap) * pass.channels + c) * NR;
          for (int row = 0; row < channels; row += MR) {
            const int count = min(MR, channels - row);
            __global float *tile = tap_sums + (size_t)row * NR;
            VEC sum[MR][NV];
#pragma unroll
            for (int i = 0; i < MR; ++i)
#pragma unroll
              for (int j = 0; j < NV; ++j)
                sum[i][j] = b > first_block && i < count ? LOAD_FLOATS(tile + i * NR + j * VW)
                                                         : (VEC)(0.0f);
            const __local VEC *factor = grads;
            for (int slice = 0; slice < slices; ++slice) {
              for (int y = 0; y < lines; ++y) {
                const __local float *from =
                    patch + away + row +
                    (size_t)(slice * block.height + y * pass.step[1]) * block.width * block.chunk;
                for (int x = 0; x < columns;
                     ++x, factor += NV, from += pass.step[2] * block.chunk) {
#pragma unroll
                  for (int i = 0; i < MR; ++i) {
                    const VEC value = (VEC)(from[i]);
#pragma unroll
                    for (int j = 0; j < NV; ++j) sum[i][j] = fma(value, factor[j], sum[i][j]);
                  }
                }
              }
            }
#pragma unroll
            for (int i = 0; i < MR; ++i)
              if (i < count)
#pragma unroll
                for (int j = 0; j < NV; ++j) STORE_FLOATS(sum[i][j], tile + i * NR + j * VW);
          }
        }
      }
    }
  }
}
