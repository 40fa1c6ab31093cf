// Float convolution on CPU devices without an im2col buffer, up to three spatial dimensions.
//
// conv_pack.cl copies the input once into planes that are split into the phases of the stride and
// have zeros between rows, images and channels. In that layout a tap (channel, kernel row, kernel
// column) of consecutive output pixels reads consecutive floats, at a constant offset from the
// pixels. A register tile of output channels by pixels then needs one vector load and MR
// multiply-adds per tap and vector.
//
// Defines: VW, lanes of a vector, 4, 8 or 16; the VW of conv_pack.cl is a multiple. conv_taps: MR
// output channels by NV vectors of pixels are a tile.
// ACTIVATION(x) and HAS_RESIDUAL: the epilogue (conv_finish.clh); the residual is laid out as out.
// conv_weight_grad: WEIGHT_ROWS output channels by WEIGHT_TAPS taps are a tile.
//
// conv_taps         grid (ceil(panels / panels_per_task), ceil(tiles / tiles_per_task), z)
//     panels = ceil(pixels / (VW * NV)), tiles = ceil(channels / MR).
//     x is the padded input: z = groups, x_group = input channels of a group * channel.
//     Or x is the tensor itself (kernel 1, stride 1, no padding, plane >= VW * NV): z = images *
//     groups, pixels = pitch = out_width = plane, every other size of the layout is 1,
//     tap_offset[c] = c * pixels, x_image and x_group are the strides of x. Nothing is read outside
//     of x.
//     Result (slice, row, column) is at image * out_image + channel * out_channel +
//     slice * out_slice + row * out_row + column * out_column.
// conv_weight_grad  grid (ceil(taps / WEIGHT_TAPS), groups * ceil(channels / WEIGHT_ROWS), parts)
//     parts[part][group][channel][tap] = sum over the pixels [part * per_part, (part + 1) *
//     per_part) of grad * x, per_part a multiple of VW. x is the padded input, grad the output's
//     gradient in the padded layout with stride 1, the input's rows and pitch, front = 0, back = 0
//     and grad_channel = phase rounded up to a multiple of VW.
// sum_parts         grid (ceil(count / per_task)); not needed for one part.
//
// The data gradient: the output's gradient is padded once with stride 1. Then conv_taps runs once
// for each phase (rz, ry, rx) of the input, 0 <= r < stride in each dimension. It computes the
// inputs at (first + q) * stride + r - pad for 0 <= q < count. The host computes in each dimension,
// with j the index in the kernel and o the output channel in its group:
//     first    = ceil((pad - r) / stride)
//     count    = floor((input size - 1 + pad - r) / stride) - first + 1      <= 0: nothing to do
//     taps:      all (o, jz, jy, jx) with (j * dilation) mod stride == r in each; may be none
//     step(j)  = first - floor(j * dilation / stride)
//     pitch as in conv_pack.cl with size = kept = the gradient's, out_size = count; the maximum of
//     all phases
//     tap_offset = front + o * channel + shift; front and back are the maxima of all phases
//     out_depth, out_height, out_width = count; `out` begins at element first * stride + r - pad in
//     each dimension; out_slice, out_row, out_column: the strides, in elements of the input
//     weight_offset[tap] = o * input channels of a group * window + (jz * kernel_y + jy) *
//     kernel_x + jx, window = kernel_z * kernel_y * kernel_x
//     channel_stride = window, group_stride = output channels of a group * input
//     channels of a group * window, channels = input channels of a group
#include "conv_finish.clh"

#define NR (VW * NV)
#define LINE 16  // floats of a cache line

#ifdef MR
typedef struct {
  long x_image, x_group;                                        // strides of x
  long out_image, out_channel, out_slice, out_row, out_column;  // strides of the result
  int has_bias, reads_tensor;
  int channels, taps, groups, pixels;
  int images_per_line, slices, padded_rows, pitch;
  int out_depth, out_height, out_width;
  int panels_per_task, tiles_per_task;
} Taps;

TASK __kernel void conv_taps(TENSOR(out), CTENSOR(x), CTENSOR(packed), CTENSOR(tap_offset),
                             CTENSOR(bias), CTENSOR(residual), const Taps t) {
  const int z_image = get_global_id(2) / t.groups;
  const int group = get_global_id(2) - z_image * t.groups;
  const int tiles = DIVIDE_UP(t.channels, MR);
  const int first_tile = get_global_id(1) * t.tiles_per_task;
  const int last_tile = min(tiles, first_tile + t.tiles_per_task);
  const int first_pixel = get_global_id(0) * t.panels_per_task * NR;
  const int last_pixel = min(t.pixels, first_pixel + t.panels_per_task * NR);
  __global const float *restrict input = CPTR(float, x) + z_image * t.x_image + group * t.x_group;
  __global const float *restrict weights =
      CPTR(float, packed) + (size_t)group * tiles * t.taps * MR;
  __global const int *restrict offset = CPTR(int, tap_offset);
  __global const float *restrict bias_group = CPTR(float, bias) + (size_t)group * t.channels;
  const long out_group = z_image * t.out_image + (long)group * t.channels * t.out_channel;
  __global float *restrict output = PTR(float, out);
  __global const float *restrict addend = CPTR(float, residual);

  for (int panel = first_pixel; panel < last_pixel; panel += NR) {
    // The last panel of a tensor begins earlier, to read nothing after it. Pixels of the panel
    // before are not stored again.
    const int start = t.reads_tensor ? min(panel, t.pixels - NR) : panel;
    int slice_of[NV], row_of[NV], image_of[NV], column_of[NV];
#pragma unroll
    for (int j = 0; j < NV; ++j) {
      const int run = (start + j * VW) / t.pitch;
      const int line = run / t.images_per_line;
      column_of[j] = start + j * VW - run * t.pitch;
      const int slice = line / t.padded_rows;
      const int outer = slice / t.slices;
      image_of[j] = outer * t.images_per_line + run - line * t.images_per_line;
      slice_of[j] = slice - outer * t.slices;
      row_of[j] = line - slice * t.padded_rows;
    }
    for (int tile = first_tile; tile < last_tile; ++tile) {
      __global const float *restrict factor = weights + (size_t)tile * t.taps * MR;
      const int rows = min(MR, t.channels - tile * MR);
      VEC sum[MR][NV];
#pragma unroll
      for (int i = 0; i < MR; ++i) {
        const VEC value = (VEC)(t.has_bias && i < rows ? bias_group[tile * MR + i] : 0.0f);
#pragma unroll
        for (int j = 0; j < NV; ++j) sum[i][j] = value;
      }
#if HAS_RESIDUAL
      for (int j = 0; j < NV; ++j) {
        const long at = out_group + (long)tile * MR * t.out_channel + image_of[j] * t.out_image +
                        slice_of[j] * t.out_slice + row_of[j] * t.out_row + column_of[j];
        for (int i = 0; i < rows; ++i) PREFETCH_RESIDUAL(addend + at + i * t.out_channel);
      }
#endif
      for (int tap = 0; tap < t.taps; ++tap, factor += MR) {
        __global const float *restrict run = input + offset[tap] + start;
        VEC pixel[NV];
#pragma unroll
        for (int j = 0; j < NV; ++j) pixel[j] = LOAD_FLOATS(run + j * VW);
        // Prefetches a part of the next panel: hardware prefetchers miss accesses a plane apart.
        PREFETCH(run + NR + (tap & 3) * LINE);
#pragma unroll
        for (int i = 0; i < MR; ++i) {
          const VEC weight = (VEC)(factor[i]);
#pragma unroll
          for (int j = 0; j < NV; ++j) sum[i][j] = fma(weight, pixel[j], sum[i][j]);
        }
      }

      const long out_tile = out_group + (long)tile * MR * t.out_channel;
#pragma unroll
      for (int j = 0; j < NV; ++j) {
        const int q = start + j * VW;
        int slice = slice_of[j], row = row_of[j], n = image_of[j], column = column_of[j];
        if (t.out_column == 1 && q >= panel && q < t.pixels && slice < t.out_depth &&
            row < t.out_height && column + VW <= t.out_width) {
          long at = out_tile + n * t.out_image + slice * t.out_slice + row * t.out_row + column;
#pragma unroll
          for (int i = 0; i < MR; ++i, at += t.out_channel)
            if (i < rows) STORE_FLOATS(FINISHED(sum[i][j], addend + at, VW), output + at);
        } else {
          // The vector crosses the end of a row: store the rest of the row, then the next row.
          float lane[MR + 1][VW];  // one more row, because loads of the last row read beyond it
#pragma unroll
          for (int i = 0; i < MR; ++i) STORE_FLOATS(sum[i][j], lane[i]);
          for (int l = 0; l < VW && q + l < t.pixels;) {
            const int run = min(t.pitch - column, VW - l);
            const int skipped = max(0, panel - q - l);
            const int count = min(min(t.out_width - column, run), t.pixels - q - l) - skipped;
            if (slice < t.out_depth && row < t.out_height && count > 0) {
              long at = out_tile + n * t.out_image + slice * t.out_slice + row * t.out_row +
                        (column + skipped) * t.out_column;
              for (int i = 0; i < rows; ++i, at += t.out_channel) {
                const float *restrict from = lane[i] + l + skipped;
                if (t.out_column == 1)
                  store_few(output + at, FINISHED(LOAD_FLOATS(from), addend + at, count), count);
                else  // a data gradient, which has no epilogue
                  for (int k = 0; k < count; ++k) output[at + k * t.out_column] = from[k];
              }
            }
            l += run;
            column = 0;
            if (++n % t.images_per_line == 0) {
              n -= t.images_per_line;
              if (++row == t.padded_rows) {
                row = 0;
                if (++slice == t.slices) {
                  slice = 0;
                  n += t.images_per_line;
                }
              }
            }
          }
        }
      }
    }
  }
}
#endif

#ifdef WEIGHT_ROWS
TASK __kernel void conv_weight_grad(TENSOR(parts), CTENSOR(x), CTENSOR(grad), CTENSOR(tap_offset),
                                    const int groups, const int channels, const int taps,
                                    const int pixels, const long x_group, const long grad_channel,
                                    const int per_part) {
  const int first_tap = get_global_id(0) * WEIGHT_TAPS;
  const int tiles = get_global_size(1) / groups;
  const int group = get_global_id(1) / tiles;
  const int first_row = (get_global_id(1) - group * tiles) * WEIGHT_ROWS;
  const int first_pixel = get_global_id(2) * per_part;
  const int last_pixel = min(pixels, first_pixel + per_part);

  // Beyond the last tap or channel, the last one is read again and not stored.
  __global const float *tap_start[WEIGHT_TAPS];
  __global const float *row_start[WEIGHT_ROWS];
  VEC sum[WEIGHT_ROWS][WEIGHT_TAPS];
#pragma unroll
  for (int t = 0; t < WEIGHT_TAPS; ++t)
    tap_start[t] =
        CPTR(float, x) + group * x_group + CPTR(int, tap_offset)[min(first_tap + t, taps - 1)];
#pragma unroll
  for (int o = 0; o < WEIGHT_ROWS; ++o) {
    row_start[o] = CPTR(float, grad) +
                   ((long)group * channels + min(first_row + o, channels - 1)) * grad_channel;
#pragma unroll
    for (int t = 0; t < WEIGHT_TAPS; ++t) sum[o][t] = (VEC)(0.0f);
  }
  for (size_t q = first_pixel; q < last_pixel; q += VW) {
    VEC pixel[WEIGHT_TAPS];
#pragma unroll
    for (int t = 0; t < WEIGHT_TAPS; ++t) pixel[t] = LOAD_FLOATS(tap_start[t] + q);
#pragma unroll
    for (int o = 0; o < WEIGHT_ROWS; ++o) {
      const VEC value = LOAD_FLOATS(row_start[o] + q);
#pragma unroll
      for (int t = 0; t < WEIGHT_TAPS; ++t) sum[o][t] = fma(value, pixel[t], sum[o][t]);
    }
  }
  __global float *part = PTR(float, parts) +
                         ((size_t)get_global_id(2) * groups + group) * channels * taps;
#pragma unroll
  for (int o = 0; o < WEIGHT_ROWS; ++o)
#pragma unroll
    for (int t = 0; t < WEIGHT_TAPS; ++t)
      if (first_row + o < channels && first_tap + t < taps)
        part[(size_t)(first_row + o) * taps + first_tap + t] = sum_of_lanes(sum[o][t]);
}

TASK __kernel void sum_parts(TENSOR(grad), CTENSOR(parts), const int parts, const long count,
                             const long per_task) {
  __global const float *restrict from = CPTR(float, parts);
  __global float *restrict to = PTR(float, grad);
  const long last = min(count, (long)(get_global_id(0) + 1) * per_task);
  for (long i = get_global_id(0) * per_task; i < last; ++i) {
    float sum = 0.0f;
    for (int part = 0; part < parts; ++part) sum += from[part * count + i];
    to[i] = sum;
  }
}
#endif
