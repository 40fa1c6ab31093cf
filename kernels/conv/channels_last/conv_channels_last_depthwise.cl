// Depthwise convolution of channels_last tensors on CPU devices: each channel of the result depends
// on one channel of the source, so vectors of channels are multiplied lane by lane.
//
// Defines: VW, lanes of a vector, at most the number of channels; TAPS_X, taps of a row; MAX_ROWS,
// at least the rows of taps
//
// `pass` as conv_pass.clh defines it, with as many groups as channels. The weights are
// packed[tap][channel].
//
// pack_depthwise    grid (1)
// depthwise         grid (ceil(lines / per_task)), lines: of positions, of all images
// depthwise_weight  the same grid: parts[task][tap][channel], the sums of a task's lines
// unpack_depthwise  grid (1): stores the sum of the parts as weights
#include "conv_vector.clh"
#include "conv_pass.clh"

#define AT_ONCE 4  // adjacent positions that share the loads of weights

#define FOR_EACH_WEIGHT                                                                     \
  for (int z = 0, tap = 0; z < pass.tap_count[0]; ++z)                                      \
    for (int y = 0; y < pass.tap_count[1]; ++y)                                             \
      for (int x = 0; x < pass.tap_count[2]; ++x, ++tap)                                    \
        for (int c = 0; c < pass.groups; ++c)

#define WEIGHT                                                                             \
  ((size_t)c * pass.weight_group + pass.weight_first + z * pass.weight_step[0] +           \
   y * pass.weight_step[1] + x * pass.weight_step[2])

TASK __kernel void pack_depthwise(TENSOR(packed), CTENSOR(weight), const Pass pass) {
  FOR_EACH_WEIGHT PTR(float, packed)[(size_t)tap * pass.groups + c] = CPTR(float, weight)[WEIGHT];
}

TASK __kernel void unpack_depthwise(TENSOR(weight), CTENSOR(packed), const Pass pass,
                                    const int parts) {
  FOR_EACH_WEIGHT {
    float sum = 0.0f;
    for (int part = 0; part < parts; ++part)
      sum += CPTR(float, packed)[((size_t)part * pass.taps + tap) * pass.groups + c];
    PTR(float, weight)[WEIGHT] = sum;
  }
}

// The image, slice and row of a line of positions. For the columns [inner, outer), all taps of a
// row are inside the source.
#define LOCATE_LINE                                                                        \
  const int channels = pass.groups;                                                        \
  const int slice_line = line / pass.size[1], row = line - slice_line * pass.size[1];      \
  const int image = slice_line / pass.size[0], slice = slice_line - image * pass.size[0];  \
  const int reach = (TAPS_X - 1) * pass.spacing[2];                                        \
  const int least = max(0, -(pass.first[2] + min(0, reach)));                              \
  const int most = pass.source[2] - 1 - pass.first[2] - max(0, reach);                     \
  const int outer = most < 0 ? 0 : min(pass.size[2], most / pass.step[2] + 1);             \
  const int inner = min(outer, DIVIDE_UP(least, pass.step[2]));

// Finds the rows of the source that the line's taps read, and for each its row of taps. Leaves out
// rows outside of the source.
#define FIND_ROWS                                                                          \
  size_t row_at[MAX_ROWS];                                                                 \
  int row_of_taps[MAX_ROWS];                                                               \
  int rows_inside = 0;                                                                     \
  for (int tap_z = 0; tap_z < pass.tap_count[0]; ++tap_z) {                                \
    const int z = slice * pass.step[0] + pass.first[0] + tap_z * pass.spacing[0];          \
    for (int tap_y = 0; tap_y < pass.tap_count[1]; ++tap_y) {                              \
      const int y = row * pass.step[1] + pass.first[1] + tap_y * pass.spacing[1];          \
      if ((uint)z >= (uint)pass.source[0] || (uint)y >= (uint)pass.source[1]) continue;    \
      row_at[rows_inside] =                                                                \
          (((size_t)image * pass.source[0] + z) * pass.source[1] + y) * pass.source[2] *   \
          channels;                                                                        \
      row_of_taps[rows_inside++] = tap_z * pass.tap_count[1] + tap_y;                      \
    }                                                                                      \
  }

TASK __kernel void depthwise(TENSOR(result), CTENSOR(source), CTENSOR(packed), CTENSOR(bias),
                             const int has_bias, const Pass pass, const int lines,
                             const int per_task) {
  const int first = get_global_id(0) * per_task;
  const int last = min(lines, first + per_task);
  for (int line = first; line < last; ++line) {
    LOCATE_LINE
    FIND_ROWS
    __global float *restrict out =
        PTR(float, result) + ((size_t)image * pass.result_plane + pass.result_first +
                              slice * pass.result_step[0] + row * pass.result_step[1]) * channels;
    const size_t out_step = (size_t)pass.result_step[2] * channels;
    const size_t step = (size_t)pass.step[2] * channels;
    const long spacing = (long)pass.spacing[2] * channels;
    for (int x = 0; x < pass.size[2];) {
      // The last group of AT_ONCE positions may overlap the one before.
      if (x > inner && x < outer && outer - inner >= AT_ONCE) x = min(x, outer - AT_ONCE);
      const bool whole = x >= inner && x + AT_ONCE <= outer;
      const int first_x = x * pass.step[2] + pass.first[2];
      for (int next = 0; next < channels; next += VW) {
        const int c = min(next, channels - VW);  // the last vector may overlap, too
        const VEC start = has_bias ? LOAD_FLOATS(CPTR(float, bias) + c) : (VEC)(0.0f);
        __global float *to = out + x * out_step + c;
        if (whole) {
          VEC sum[AT_ONCE];
#pragma unroll
          for (int i = 0; i < AT_ONCE; ++i) sum[i] = start;
          for (int r = 0; r < rows_inside; ++r) {
            __global const float *restrict from =
                CPTR(float, source) + row_at[r] + (size_t)first_x * channels + c;
            __global const float *restrict weight =
                CPTR(float, packed) + (size_t)row_of_taps[r] * TAPS_X * channels + c;
#pragma unroll
            for (int t = 0; t < TAPS_X; ++t, from += spacing, weight += channels) {
              const VEC factor = LOAD_FLOATS(weight);
#pragma unroll
              for (int i = 0; i < AT_ONCE; ++i)
                sum[i] = fma(LOAD_FLOATS(from + i * step), factor, sum[i]);
            }
          }
#pragma unroll
          for (int i = 0; i < AT_ONCE; ++i) STORE_FLOATS(sum[i], to + i * out_step);
        } else {
          VEC sum = start;
          for (int r = 0; r < rows_inside; ++r) {
            __global const float *restrict from = CPTR(float, source) + row_at[r] + c;
            __global const float *restrict weight =
                CPTR(float, packed) + (size_t)row_of_taps[r] * TAPS_X * channels + c;
            for (int t = 0; t < TAPS_X; ++t) {
              const int at = first_x + t * pass.spacing[2];
              if ((uint)at < (uint)pass.source[2])
                sum = fma(LOAD_FLOATS(from + (size_t)at * channels),
                          LOAD_FLOATS(weight + (size_t)t * channels), sum);
            }
          }
          STORE_FLOATS(sum, to);
        }
      }
      x += whole ? AT_ONCE : 1;
    }
  }
}

// Adds the products of positions [begin, end), of which some taps may be outside.
#define ADD_EDGE(begin, end)                                                               \
  for (int x = begin; x < end; ++x) {                                                      \
    const VEC grad = LOAD_FLOATS(grads + (size_t)x * channels + c);                        \
    _Pragma("unroll") for (int t = 0; t < TAPS_X; ++t) {                                   \
      const int at = x * pass.step[2] + pass.first[2] + t * pass.spacing[2];               \
      if ((uint)at < (uint)pass.source[2])                                                 \
        sum[t] = fma(LOAD_FLOATS(from + (size_t)at * channels), grad, sum[t]);             \
    }                                                                                      \
  }

TASK __kernel void depthwise_weight(TENSOR(parts), CTENSOR(source), CTENSOR(result),
                                    const Pass pass, const int lines, const int per_task) {
  const int first = get_global_id(0) * per_task;
  const int last = min(lines, first + per_task);
  __global float *sums = PTR(float, parts) + get_global_id(0) * pass.taps * pass.groups;
  for (size_t i = 0; i < (size_t)pass.taps * pass.groups; ++i) sums[i] = 0.0f;
  for (int line = first; line < last; ++line) {
    LOCATE_LINE
    FIND_ROWS
    const size_t step = (size_t)pass.step[2] * channels;
    const long spacing = (long)pass.spacing[2] * channels;
    __global const float *restrict grads =
        CPTR(float, result) + (size_t)line * pass.size[2] * channels;
    for (int next = 0; next < channels; next += VW) {
      const int c = min(next, channels - VW);
      for (int r = 0; r < rows_inside; ++r) {
        __global const float *restrict from = CPTR(float, source) + row_at[r] + c;
        VEC sum[TAPS_X];
#pragma unroll
        for (int t = 0; t < TAPS_X; ++t) sum[t] = (VEC)(0.0f);
        ADD_EDGE(0, inner)
        __global const float *restrict grad = grads + (size_t)inner * channels + c;
        __global const float *restrict pixel =
            from + ((long)inner * pass.step[2] + pass.first[2]) * channels;
        for (int x = inner; x < outer; ++x, grad += channels, pixel += step) {
          const VEC factor = LOAD_FLOATS(grad);
#pragma unroll
          for (int t = 0; t < TAPS_X; ++t)
            sum[t] = fma(LOAD_FLOATS(pixel + t * spacing), factor, sum[t]);
        }
        ADD_EDGE(outer, pass.size[2])
        __global float *to = sums + (size_t)row_of_taps[r] * TAPS_X * channels + c;
#pragma unroll
        for (int t = 0; t < TAPS_X; ++t) {
          if (next == c) {
            STORE_FLOATS(LOAD_FLOATS(to + t * channels) + sum[t], to + t * channels);
          } else {
            // Skip the lanes that the vector before has added.
            float lane[VW];
            STORE_FLOATS(sum[t], lane);
            for (int l = next - c; l < VW; ++l) to[t * channels + l] += lane[l];
          }
        }
      }
    }
  }
}
