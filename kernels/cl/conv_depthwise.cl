// Depthwise float convolution on CPU devices: each output channel has one input channel.
//
// A task copies a band of rows of a plane into private memory, with the zeros around it and split
// into the phases of the stride, and computes the band's rows of output from there.
//
// Defines: VW, lanes of a vector; KH, KW, SY, SX, DY, DX, kernel size, stride, dilation; BAND, floats
// of a band; ROWS, rows of output at a time.
//
// Tensors are contiguous: x [images][channels / multiplier][in_h][in_w], out [images][channels]
// [out_h][out_w], weight [channels][KH][KW]. Pixel (y, x) of the output takes the input's
// (y * SY - pad_y + ky * DY, x * SX - pad_x + kx * DX).
//     pitch = max(ceil((pad_x + in_w) / SX), out_w rounded up to VW + (KW - 1) * DX / SX)
//     BAND >= ((rows_per_band rounded up to ROWS - 1) * SY + (KH - 1) * DY + 1) * SX * pitch + VW,
//     and of conv_depthwise_weight also rows_per_band * out_w rounded up to VW
//
// conv_depthwise         grid (ceil(planes / planes_per_task)), planes: images * channels. flip: the
//     kernel is turned around, for the data gradient of stride 1.
// conv_depthwise_weight  grid (channels)
// conv_depthwise_spread  grid (ceil(planes / planes_per_task)): the data gradient of SX = 2, multiplier
//     1. Defines PY, PX: the padding. above, left: zeros before the output's gradient, and `lines` in
//     all more of them than rows of a band, so that no shift leaves it.
//     BAND >= (rows_per_band + lines) * pitch + VW
#include "common.clh"

#define VEC CAT(float, VW)
#define LOAD_FLOATS(p) CAT(vload, VW)(0, p)
#define STORE_FLOATS(v, p) CAT(vstore, VW)(v, 0, p)
#define LINE_OF(rows) ((rows) * SX * pitch)
#define COLUMN_OF(kx) ((kx) * DX % SX * pitch + (kx) * DX / SX)

// May write up to VW - 1 floats more.
static inline void zero_floats(float *p, const int count) {
  for (int i = 0; i < count; i += VW) STORE_FLOATS((VEC)(0.0f), p + i);
}

// Every stride-th of `from`, `count` in all.
static inline void copy_floats(float *restrict to, __global const float *restrict from,
                               const int count, const int stride) {
  int i = 0;
  if (stride == 1 && count >= VW) {
    for (; i + VW <= count; i += VW) STORE_FLOATS(LOAD_FLOATS(from + i), to + i);
    STORE_FLOATS(LOAD_FLOATS(from + count - VW), to + count - VW);
    return;
  }
  if (stride == 1 && count >= 4) {
    for (; i + 4 <= count; i += 4) vstore4(vload4(0, from + i), 0, to + i);
    vstore4(vload4(0, from + count - 4), 0, to + count - 4);
    return;
  }
  if (stride == 2) {
    // The last vector's second half must not reach beyond the row.
    for (; i + VW < count; i += VW) {
      VEC both;
      both.lo = LOAD_FLOATS(from + 2 * i).even;
      both.hi = LOAD_FLOATS(from + 2 * i + VW).even;
      STORE_FLOATS(both, to + i);
    }
    for (; i + 4 < count; i += 4) vstore4(vload8(0, from + 2 * i).even, 0, to + i);
    if (count > 4) {
      // What is left, and nothing beyond it.
      const int last = count - 4;
      vstore4(vload8(0, from + 2 * last - 1).odd, 0, to + last);
      return;
    }
  }
  for (; i < count; ++i) to[i] = from[(size_t)i * stride];
}

// The first `count` lanes.
static inline void store_few(__global float *restrict to, const float *restrict lane,
                             const int count) {
  int i = 0;
  for (; i + 4 <= count; i += 4) vstore4(vload4(0, lane + i), 0, to + i);
  if (count >= 4)
    vstore4(vload4(0, lane + count - 4), 0, to + count - 4);
  else
    for (; i < count; ++i) to[i] = lane[i];
}

// Lines first_y to first_y + lines of a plane, in phases of `stride`; `clean`: what is zero is so
// already. Lines are written in order: each may write VW - 1 floats of the next.
static inline void fill_band(float *restrict band, __global const float *restrict plane,
                             const int first_y, const int lines, const int height,
                             const int width, const int pad_x, const int stride,
                             const int pitch, const int clean) {
  float *restrict to = band;
  for (int y = first_y; y < first_y + lines; ++y) {
    for (int phase = 0; phase < stride; ++phase, to += pitch) {
      if (y < 0 || y >= height) {
        if (!clean) zero_floats(to, pitch);
        continue;
      }
      // The first column of the phase, and its place.
      const int x = (phase + stride - pad_x % stride) % stride;
      const int begin = (pad_x + x) / stride;
      const int count = max(0, (width - x + stride - 1) / stride);
      if (!clean) zero_floats(to, begin);
      copy_floats(to + begin, plane + (size_t)y * width + x, count, stride);
      if (!clean) zero_floats(to + begin + count, pitch - begin - count);
    }
  }
}

TASK __kernel void conv_depthwise(TENSOR(out), CTENSOR(x), CTENSOR(weight), CTENSOR(bias),
                                  const int has_bias, const int planes, const int channels,
                                  const int multiplier, const int in_h, const int in_w,
                                  const int out_h, const int out_w, const int pad_y,
                                  const int pad_x, const int flip, const int pitch,
                                  const int rows_per_band, const int planes_per_task) {
  float band[BAND];
  const int first_plane = get_global_id(0) * planes_per_task;
  const int last_plane = min(planes, first_plane + planes_per_task);
  for (int plane = first_plane; plane < last_plane; ++plane) {
    const int channel = plane % channels;
    __global const float *restrict source =
        CPTR(float, x) + (size_t)(plane / multiplier) * in_h * in_w;
    __global const float *restrict kernel_start = CPTR(float, weight) + channel * (KH * KW);
    __global float *restrict to = PTR(float, out) + (size_t)plane * out_h * out_w;
    const VEC start = (VEC)(has_bias ? CPTR(float, bias)[channel] : 0.0f);
    float factor[KH * KW];
    for (int i = 0; i < KH * KW; ++i) factor[i] = kernel_start[flip ? KH * KW - 1 - i : i];

    for (int first = 0; first < out_h; first += rows_per_band) {
      const int last = min(out_h, first + rows_per_band);
      const int lines = (last - first - 1) * SY + (KH - 1) * DY + 1;
      const int whole = out_h <= rows_per_band;
      if (!whole || plane == first_plane || plane % multiplier == 0)
        fill_band(band, source, first * SY - pad_y, lines, in_h, in_w, pad_x, SX, pitch,
                  whole && plane > first_plane);
      for (int row = first; row < last; row += ROWS) {
        const float *restrict top = band + LINE_OF((row - first) * SY);
        for (int block = 0; block < out_w; block += VW) {
          // The last one begins earlier rather than end beyond the row.
          const int column = min(block, max(0, out_w - VW));
          VEC sum[ROWS];
#pragma unroll
          for (int r = 0; r < ROWS; ++r) sum[r] = start;
#pragma unroll
          for (int line = 0; line <= (ROWS - 1) * SY + (KH - 1) * DY; ++line) {
#pragma unroll
            for (int kx = 0; kx < KW; ++kx) {
              const VEC pixel = LOAD_FLOATS(top + LINE_OF(line) + COLUMN_OF(kx) + column);
#pragma unroll
              for (int r = 0; r < ROWS; ++r) {
                const int shift = line - r * SY;
                if (shift >= 0 && shift % DY == 0 && shift / DY < KH)
                  sum[r] = fma((VEC)(factor[shift / DY * KW + kx]), pixel, sum[r]);
              }
            }
          }
#pragma unroll
          for (int r = 0; r < ROWS; ++r) {
            if (row + r < last) {
              __global float *restrict place = to + (size_t)(row + r) * out_w + column;
              if (out_w >= VW) {
                STORE_FLOATS(sum[r], place);
              } else {
                float lane[VW];
                STORE_FLOATS(sum[r], lane);
                store_few(place, lane, out_w);
              }
            }
          }
        }
      }
    }
  }
}

#ifdef PY
// Pixel (SY * v + ry, SX * u + rx) of the input takes (v + shift, u + shift) of the output where the
// shift is whole.
#define GRAD_SHIFT(pad, r, tap, dilation, stride) (((pad) + (r) - (tap) * (dilation)) / (stride))
#define IS_WHOLE(pad, r, tap, dilation, stride) (((pad) + (r) - (tap) * (dilation)) % (stride) == 0)

TASK __kernel void conv_depthwise_spread(TENSOR(x), CTENSOR(grad), CTENSOR(weight), CTENSOR(bias),
                                         const int has_bias, const int planes, const int channels,
                                         const int in_h, const int in_w, const int out_h,
                                         const int out_w, const int above, const int left,
                                         const int lines, const int pitch,
                                         const int rows_per_band, const int planes_per_task) {
  float band[BAND];
  const int first_plane = get_global_id(0) * planes_per_task;
  const int last_plane = min(planes, first_plane + planes_per_task);
  const int height = (in_h + SY - 1) / SY;
  for (int plane = first_plane; plane < last_plane; ++plane) {
    const int channel = plane % channels;
    __global const float *restrict source = CPTR(float, grad) + (size_t)plane * out_h * out_w;
    __global float *restrict to = PTR(float, x) + (size_t)plane * in_h * in_w;
    const VEC start = (VEC)(has_bias ? CPTR(float, bias)[channel] : 0.0f);
    float factor[KH * KW];
    for (int i = 0; i < KH * KW; ++i) factor[i] = CPTR(float, weight)[channel * (KH * KW) + i];
    for (int first = 0; first < height; first += rows_per_band) {
      const int last = min(height, first + rows_per_band);
      fill_band(band, source, first - above, last - first + lines, out_h, out_w, left, 1, pitch,
                plane > first_plane && height <= rows_per_band);
      for (int v = first; v < last; ++v) {
        for (int u = 0; u * SX < in_w; u += VW) {
          const float *restrict from = band + (v - first + above) * pitch + left + u;
          VEC sum[SY][SX];
#pragma unroll
          for (int ry = 0; ry < SY; ++ry)
#pragma unroll
            for (int rx = 0; rx < SX; ++rx) sum[ry][rx] = start;
#pragma unroll
          for (int ky = 0; ky < KH; ++ky)
#pragma unroll
            for (int kx = 0; kx < KW; ++kx)
#pragma unroll
              for (int ry = 0; ry < SY; ++ry)
#pragma unroll
                for (int rx = 0; rx < SX; ++rx)
                  if (IS_WHOLE(PY, ry, ky, DY, SY) && IS_WHOLE(PX, rx, kx, DX, SX))
                    sum[ry][rx] = fma((VEC)(factor[ky * KW + kx]),
                                      LOAD_FLOATS(from + GRAD_SHIFT(PY, ry, ky, DY, SY) * pitch +
                                                  GRAD_SHIFT(PX, rx, kx, DX, SX)),
                                      sum[ry][rx]);
#pragma unroll
          for (int ry = 0; ry < SY; ++ry) {
            if (v * SY + ry < in_h) {
              __global float *restrict place = to + (size_t)(v * SY + ry) * in_w + u * SX;
              VEC half_row[2];
              half_row[0].even = sum[ry][0].lo;
              half_row[0].odd = sum[ry][1].lo;
              half_row[1].even = sum[ry][0].hi;
              half_row[1].odd = sum[ry][1].hi;
              if ((u + VW) * SX <= in_w) {
                STORE_FLOATS(half_row[0], place);
                STORE_FLOATS(half_row[1], place + VW);
              } else {
                float lane[2 * VW];
                STORE_FLOATS(half_row[0], lane);
                STORE_FLOATS(half_row[1], lane + VW);
                store_few(place, lane, in_w - u * SX);
              }
            }
          }
        }
      }
    }
  }
}
#endif

// Rows of the kernel whose sums are in registers.
#if KH * KW <= 25
#define KERNEL_ROWS KH
#else
#define KERNEL_ROWS 1
#endif

TASK __kernel void conv_depthwise_weight(TENSOR(weight), CTENSOR(x), CTENSOR(grad),
                                         const int images, const int channels,
                                         const int multiplier, const int in_h, const int in_w,
                                         const int out_h, const int out_w, const int pad_y,
                                         const int pad_x, const int pitch,
                                         const int rows_per_band) {
  float band[BAND], grads[BAND];
  const int channel = get_global_id(0);
  const int grad_pitch = (out_w + VW - 1) / VW * VW;
  float total[KH * KW];
  for (int i = 0; i < KH * KW; ++i) total[i] = 0.0f;
  for (int image = 0; image < images; ++image) {
    const size_t plane = (size_t)image * channels + channel;
    __global const float *restrict source = CPTR(float, x) + plane / multiplier * in_h * in_w;
    __global const float *restrict grad_start = CPTR(float, grad) + plane * out_h * out_w;
    for (int first = 0; first < out_h; first += rows_per_band) {
      const int rows = min(out_h - first, rows_per_band);
      fill_band(band, source, first * SY - pad_y, (rows - 1) * SY + (KH - 1) * DY + 1, in_h, in_w,
                pad_x, SX, pitch, image > 0 && out_h <= rows_per_band);
      for (int row = 0; row < rows; ++row) {
        STORE_FLOATS((VEC)(0.0f), grads + (row + 1) * grad_pitch - VW);
        copy_floats(grads + row * grad_pitch, grad_start + (size_t)(first + row) * out_w, out_w, 1);
      }
      for (int ky = 0; ky < KH; ky += KERNEL_ROWS) {
        VEC sum[KERNEL_ROWS][KW];
#pragma unroll
        for (int i = 0; i < KERNEL_ROWS; ++i)
#pragma unroll
          for (int kx = 0; kx < KW; ++kx) sum[i][kx] = (VEC)(0.0f);
        for (int row = 0; row < rows; ++row) {
          for (int column = 0; column < out_w; column += VW) {
            const VEC value = LOAD_FLOATS(grads + row * grad_pitch + column);
#pragma unroll
            for (int i = 0; i < KERNEL_ROWS; ++i)
#pragma unroll
              for (int kx = 0; kx < KW; ++kx)
                sum[i][kx] = fma(value,
                                 LOAD_FLOATS(band + LINE_OF(row * SY + (ky + i) * DY) +
                                             COLUMN_OF(kx) + column),
                                 sum[i][kx]);
          }
        }
#pragma unroll
        for (int i = 0; i < KERNEL_ROWS; ++i) {
#pragma unroll
          for (int kx = 0; kx < KW; ++kx) {
            float lane[VW], lanes = 0.0f;
            STORE_FLOATS(sum[i][kx], lane);
            for (int l = 0; l < VW; ++l) lanes += lane[l];
            total[(ky + i) * KW + kx] += lanes;
          }
        }
      }
    }
  }
  __global float *restrict to = PTR(float, weight) + channel * (KH * KW);
  for (int i = 0; i < KH * KW; ++i) to[i] = total[i];
}
