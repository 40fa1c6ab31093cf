// Packs weights in the order in which the kernels of channels_last convolutions read them, and
// unpacks weight gradients.
//
// Defines: VW, lanes of a vector; NV, vectors of a panel; UNPACK, the second kernel
// instead of the first.
//
// A panel has NR = NV * VW rows (channels of a pass's result), with zeros after the last one:
//     packed[group][panel][tap][channel][NR], then zeros for a row of taps
// For example 3 filters f, g, h of 2 channels, 1 tap, NR = 4:
//     weight  f0 f1 | g0 g1 | h0 h1      packed  f0 g0 h0 0 | f1 g1 h1 0
// The strides of the weights themselves are weight_row, weight_channel and weight_step.
//
// pack_channels_last    grid (panels, groups, ceil(channels / CHANNELS))
// unpack_channels_last  the same grid: adds up `parts` packed arrays, `part_size` floats apart and
//                       without the zeros at the end, and stores the sums as weights
#include "conv_vector.clh"
#include "conv_pass.clh"

#define NR (VW * NV)
#define CHANNELS 64  // of a task, so that a cache line of weights serves all their taps

INTERLEAVE(transpose, VW)

#define SHARE                                                                        \
  const int first_row = get_global_id(0) * NR, group = get_global_id(1);             \
  const int first = get_global_id(2) * CHANNELS;                                     \
  const int last = min(pass.channels, first + CHANNELS);                             \
  const int rows = min(NR, pass.rows - first_row);                                   \
  const size_t panel = group * get_global_size(0) + get_global_id(0);                \
  const size_t row = pass.weight_row, channel = pass.weight_channel;                 \
  const size_t weights =                                                             \
      (size_t)group * pass.weight_group + first_row * row + pass.weight_first;       \
  const size_t begin = panel * pass.taps * pass.channels * NR;                       \
  const bool squares = channel == 1 && rows == NR;

#define FOR_EACH_TAP                                                                 \
  for (int z = 0; z < pass.tap_count[0]; ++z)                                        \
    for (int y = 0; y < pass.tap_count[1]; ++y)                                      \
      for (int x = 0; x < pass.tap_count[2]; ++x)

#define TAP_OF_WEIGHTS \
  (z * pass.weight_step[0] + y * pass.weight_step[1] + x * pass.weight_step[2])

#if !UNPACK
TASK __kernel void pack_channels_last(TENSOR(packed), CTENSOR(weight), const Pass pass) {
  SHARE
  __global float *restrict to = PTR(float, packed) + begin;
  FOR_EACH_TAP {
    __global const float *restrict tap = CPTR(float, weight) + weights + TAP_OF_WEIGHTS;
    int c = first;
    for (; squares && c + VW <= last; c += VW) {
      for (int j = 0; j < NV; ++j) {  // unrolled, it would compile three times as long
        VEC square[VW];
#pragma unroll
        for (int r = 0; r < VW; ++r) square[r] = LOAD_FLOATS(tap + (j * VW + r) * row + c);
        transpose(square);
#pragma unroll
        for (int i = 0; i < VW; ++i) STORE_FLOATS(square[i], to + (size_t)(c + i) * NR + j * VW);
      }
    }
    for (; c < last; ++c) {
      __global const float *restrict source = tap + c * channel;
      __global float *restrict line = to + (size_t)c * NR;
      if (rows == NR && row == 1) {
#pragma unroll
        for (int j = 0; j < NV; ++j) STORE_FLOATS(LOAD_FLOATS(source + j * VW), line + j * VW);
      } else {
        for (int r = 0; r < NR; ++r) line[r] = r < rows ? source[r * row] : 0.0f;
      }
    }
    to += (size_t)pass.channels * NR;
  }
  if (panel == get_global_size(0) * get_global_size(1) - 1) {
    const int wide = pass.tap_count[2];
    for (int c = first * wide; c < last * wide; ++c) to[c] = 0.0f;
  }
}
#else

TASK __kernel void unpack_channels_last(TENSOR(weight), CTENSOR(packed), const Pass pass,
                                        const int parts, const long part_size) {
  SHARE
  __global const float *restrict from = CPTR(float, packed) + begin;
  FOR_EACH_TAP {
    __global float *restrict tap = PTR(float, weight) + weights + TAP_OF_WEIGHTS;
    int c = first;
    for (; squares && c + VW <= last; c += VW) {
      for (int j = 0; j < NV; ++j) {  // unrolled, it would compile three times as long
        VEC square[VW];
#pragma unroll
        for (int i = 0; i < VW; ++i) {
          __global const float *restrict line = from + (size_t)(c + i) * NR + j * VW;
          square[i] = LOAD_FLOATS(line);
          for (int part = 1; part < parts; ++part)
            square[i] += LOAD_FLOATS(line + part * part_size);
        }
        transpose(square);
#pragma unroll
        for (int r = 0; r < VW; ++r) STORE_FLOATS(square[r], tap + (j * VW + r) * row + c);
      }
    }
    for (; c < last; ++c) {
      for (int r = 0; r < rows; ++r) {
        float sum = 0.0f;
        for (int part = 0; part < parts; ++part) sum += from[part * part_size + (size_t)c * NR + r];
        tap[r * row + c * channel] = sum;
      }
    }
    from += (size_t)pass.channels * NR;
  }
}
#endif
