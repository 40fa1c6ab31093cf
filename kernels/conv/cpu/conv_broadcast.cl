// Float convolution on CPU devices with vectors of channels: one element of the source is broadcast
// and multiplied by the weights of VW channels. Unlike conv_padded.cl it computes nothing for the
// zeros between rows, which counts where planes are small.
//
// A row is a pixel of the result and k a tap; for the weight gradient a row is a tap, and k a pixel
// of the output. The source is the tensor itself, or a padded copy (conv_pack.cl).
//
//     out[row][channel] = sum over k of source[start[row] + step[k]] * factor[channel][offset[k]]
//
// Defines: VW, lanes of a vector, 4, 8 or 16; MR rows by NV vectors of channels are a register
// tile; KC, the number of k that are packed at a time. ACTIVATION(x) and HAS_RESIDUAL: the epilogue
// (conv_finish.clh); the residual is laid out as out.
//
// conv_broadcast  grid (ceil(channels / (VW * NV)), ceil(rows / rows_per_task), groups),
//     rows_per_task a multiple of MR; channels: of a group.
//     factor index: group * factor_group + channel * factor_channel + offset[k], below `factors`.
//     Offsets come in runs of `run`, which divides `depth`: the offsets of a run are consecutive.
//     out: [rows / plane][groups][channels][plane], where rows of a plane are consecutive.
//     sums: scratch of groups * grid x * grid y * rows_per_task * VW * NV floats
#include "conv_finish.clh"

#define NC (VW * NV)

INTERLEAVE(transpose, VW)

typedef struct {
  long source_group;                           // stride of a group in the source
  long factor_channel, factor_group, factors;  // strides and count of the factors
  int has_bias, channels, rows, depth, run, plane;
  int rows_per_task;
} Product;

TASK __kernel void conv_broadcast(TENSOR(out), TENSOR(sums), CTENSOR(source), CTENSOR(start),
                                  CTENSOR(step), CTENSOR(factor), CTENSOR(offset), CTENSOR(bias),
                                  CTENSOR(residual), const Product p) {
  __local VEC panel[(KC + VW) * NV];
  __local float *panel_lanes = (__local float *)panel;
  const int group = get_global_id(2);
  const int first_channel = get_global_id(0) * NC;
  const int here = min(NC, p.channels - first_channel);
  const int first_row = get_global_id(1) * p.rows_per_task;
  const int last_row = min(p.rows, first_row + p.rows_per_task);
  __global const float *restrict input = CPTR(float, source) + group * p.source_group;
  __global const int *restrict row_start = CPTR(int, start);
  __global const int *restrict steps = CPTR(int, step);
  __global const int *restrict offsets = CPTR(int, offset);
  const long factor_first = group * p.factor_group + first_channel * p.factor_channel;
  __global const float *restrict columns = CPTR(float, factor) + factor_first;
  __global float *restrict task_sums =
      PTR(float, sums) + (((size_t)group * get_global_size(0) + get_global_id(0)) *
                              get_global_size(1) + get_global_id(1)) * p.rows_per_task * NC;

  for (int k0 = 0; k0 < p.depth; k0 += KC) {
    const int k1 = min(p.depth, k0 + KC);
    // Packs the factors as panel[k][channel]. Beyond the last channel the last one is repeated. A
    // vector may write beyond its run; the next run overwrites those k.
    for (int c = 0; c < here; c += VW) {
      for (int k = k0; k < k1;) {
        const int count = min(min(p.run - k % p.run, k1 - k), VW);
        __global const float *restrict from = columns + offsets[k];
        __local float *restrict to = panel_lanes + (size_t)(k - k0) * NC + c;
        if (2 * count > VW &&
            factor_first + offsets[k] + (here - 1) * p.factor_channel + VW <= p.factors) {
          VEC square[VW];
#pragma unroll
          for (int i = 0; i < VW; ++i)
            square[i] = LOAD_FLOATS(from + min(c + i, here - 1) * p.factor_channel);
          transpose(square);
#pragma unroll
          for (int i = 0; i < VW; ++i) STORE_FLOATS(square[i], to + i * NC);
        } else {
          for (int i = 0; i < count; ++i)
            for (int l = 0; l < VW; ++l)
              to[i * NC + l] = from[min(c + l, here - 1) * p.factor_channel + i];
        }
        k += count;
      }
    }

    for (int row = first_row; row < last_row; row += MR) {
      __global float *restrict tile_sums = task_sums + (size_t)(row - first_row) * NC;
      __global const float *from[MR];
      VEC sum[MR][NV];
#pragma unroll
      for (int i = 0; i < MR; ++i) {
        from[i] = input + row_start[min(row + i, last_row - 1)];
#pragma unroll
        for (int j = 0; j < NV; ++j)
          sum[i][j] = k0 ? LOAD_FLOATS(tile_sums + i * NC + j * VW) : (VEC)(0.0f);
      }
      __global const int *restrict at = steps + k0;
      const __local VEC *restrict line = panel;
      for (int k = k0; k < k1; ++k, ++at, line += NV) {
        const size_t shift = *at;
#pragma unroll
        for (int i = 0; i < MR; ++i) {
          const VEC value = (VEC)(from[i][shift]);
#pragma unroll
          for (int j = 0; j < NV; ++j) sum[i][j] = fma(value, line[j], sum[i][j]);
        }
      }
#pragma unroll
      for (int i = 0; i < MR; ++i)
#pragma unroll
        for (int j = 0; j < NV; ++j) STORE_FLOATS(sum[i][j], tile_sums + i * NC + j * VW);
    }
  }

  const int groups = get_global_size(2);
  for (int row = first_row; row < last_row;) {
    const int image = row / p.plane;
    const int pixel = row - image * p.plane;
    const int count = min(min(p.plane - pixel, last_row - row), VW);
    for (int c = 0; c < here; c += VW) {
      VEC square[VW];
#pragma unroll
      for (int i = 0; i < VW; ++i)
        square[i] =
            LOAD_FLOATS(task_sums + (size_t)(row - first_row + min(i, count - 1)) * NC + c);
      transpose(square);
      const int channel = group * p.channels + first_channel + c;
      size_t at = ((size_t)image * groups * p.channels + channel) * p.plane + pixel;
#pragma unroll
      for (int i = 0; i < VW; ++i, at += p.plane) {
        if (c + i < here) {
          const VEC value = square[i] + (VEC)(p.has_bias ? CPTR(float, bias)[channel + i] : 0.0f);
          store_few(PTR(float, out) + at, FINISHED(value, CPTR(float, residual) + at, count),
                    count);
        }
      }
    }
    row += count;
  }
}
