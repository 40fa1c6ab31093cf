// Depthwise float convolution on CPU devices: each output channel has one input channel.
//
// A task copies a band of rows of a plane into private memory, with zeros around it. Each line of
// the band is split into the SX phases of the stride, [line][phase][pitch], as in conv_pack.cl. The
// band's rows of output are computed from the copy.
//
// Defines: VW, lanes of a vector; KH, KW, SY, SX, DY, DX, kernel size, stride, dilation; BAND,
// floats of a band; ROWS, rows of output at a time.
//
// Tensors are contiguous: x [images][channels / multiplier][in_h][in_w], out [images][channels]
// [out_h][out_w], weight [channels][KH][KW]. Tap (ky, kx) of output pixel (y, x) reads the input at
// (y * SY - pad_y + ky * DY, x * SX - pad_x + kx * DX).
//     pitch = max(ceil((pad_x + in_w) / SX), out_w rounded up to VW + (KW - 1) * DX / SX)
//     BAND >= ((rows_per_band rounded up to ROWS - 1) * SY + (KH - 1) * DY + 1) * SX * pitch + VW,
//     and of conv_depthwise_weight also rows_per_band * out_w rounded up to VW
//
// conv_depthwise         grid (ceil(planes / planes_per_task)), planes: images * channels,
//     planes_per_task a multiple of multiplier. flip: the kernel is rotated by 180 degrees, for the
//     data gradient of stride 1.
// conv_depthwise_weight  grid (channels). Defines WEIGHT_GRADIENT.
// conv_depthwise_spread  grid (ceil(planes / planes_per_task)): the data gradient of SX = 2,
//     multiplier 1. Defines PY, PX: the padding. pad_y, pad_x: zeros before the output's gradient.
//     A band has `lines` more lines than rows_per_band, so that every tap is inside.
//     BAND >= (rows_per_band + lines) * pitch + VW
#define ROW_SPACE __private
#include "conv_vector.clh"

#define LINE_OF(rows) ((rows) * SX * pitch)
// Lines of a band for `rows` rows of output.
#define LINES(rows) (((rows) - 1) * SY + (KH - 1) * DY + 1)
#define COLUMN_OF(kx) ((kx) * DX % SX * pitch + (kx) * DX / SX)

// Writes zeros, and up to VW - 1 more than `count`.
static inline void zero_floats(float *p, const int count) {
  for (int i = 0; i < count; i += VW) STORE_FLOATS((VEC)(0.0f), p + i);
}

// Copies lines first_y to first_y + lines of a plane, in phases of `stride`. `clean`: the zeros of
// the band are in place already. The order of lines matters: each may write VW - 1 floats of the
// next.
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
      // The first column of the phase, and its position in the line.
      const int x = (phase + stride - pad_x % stride) % stride;
      const int begin = (pad_x + x) / stride;
      const int count = max(0, DIVIDE_UP(width - x, stride));
      if (!clean) zero_floats(to, begin);
      copy_row(to + begin, plane + (size_t)y * width + x, count, stride);
      if (!clean) zero_floats(to + begin + count, pitch - begin - count);
    }
  }
}

// Computes rows first to last of a plane of the output.
static inline void convolve(const float *restrict band, __global float *restrict to,
                            const float *restrict factor, const VEC start, const int first,
                            const int last, const int out_w, const int pitch) {
  for (int row = first; row < last; row += ROWS) {
    const float *restrict top = band + LINE_OF((row - first) * SY);
    for (int block = 0; block < out_w; block += VW) {
      // The last block begins earlier, so that it does not end after the row.
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
          store_few(place, sum[r], min(out_w, VW));
        }
      }
    }
  }
}

typedef struct {
  int images, planes, channels, multiplier;
  int in_h, in_w, out_h, out_w, pad_y, pad_x;
  int has_bias, flip;
  int pitch, rows_per_band, lines, planes_per_task;
} Planes;
// A task's planes, and its band of lines.
#define OPEN_PLANES                                             \
  const int pitch = g.pitch;                                    \
  float band[BAND];                                             \
  const int first_plane = get_global_id(0) * g.planes_per_task; \
  const int last_plane = min(g.planes, first_plane + g.planes_per_task);

#if !defined(PY) && !defined(WEIGHT_GRADIENT)
TASK __kernel void conv_depthwise(TENSOR(out), CTENSOR(x), CTENSOR(weight), CTENSOR(bias),
                                  const Planes g) {
  OPEN_PLANES
  // A vector load right after narrower stores to the same floats waits for them. So the bands of
  // several small planes are filled before the first is read.
  const int band_rows = min(g.out_h, g.rows_per_band);
  const int span = LINE_OF(LINES(band_rows));
  const int reach = LINE_OF(LINES(ROUND_UP(band_rows, ROWS))) + VW;
  const int at_once = band_rows < g.out_h ? 1 : 1 + (BAND - reach) / span;
  for (int plane = first_plane; plane < last_plane; plane += at_once * g.multiplier) {
    const int end = min(last_plane, plane + at_once * g.multiplier);
    for (int first = 0; first < g.out_h; first += g.rows_per_band) {
      const int last = min(g.out_h, first + g.rows_per_band);
      float *restrict slot = band;
      for (int p = plane; p < end; p += g.multiplier, slot += span)
        fill_band(slot, CPTR(float, x) + (size_t)(p / g.multiplier) * g.in_h * g.in_w,
                  first * SY - g.pad_y, LINES(last - first), g.in_h, g.in_w, g.pad_x, SX, pitch,
                  band_rows == g.out_h && plane > first_plane);
      for (int p = plane; p < end; ++p) {
        const int channel = p % g.channels;
        __global const float *restrict kernel_start = CPTR(float, weight) + channel * (KH * KW);
        float factor[KH * KW];
        for (int i = 0; i < KH * KW; ++i) factor[i] = kernel_start[g.flip ? KH * KW - 1 - i : i];
        convolve(band + (p - plane) / g.multiplier * span,
                 PTR(float, out) + (size_t)p * g.out_h * g.out_w, factor,
                 (VEC)(g.has_bias ? CPTR(float, bias)[channel] : 0.0f), first, last, g.out_w,
                 pitch);
      }
    }
  }
}

#elif defined(PY)
// A tap of input pixel (SY * v + ry, SX * u + rx) reads output pixel (v + shift_y, u + shift_x), if
// the shifts GRAD_SHIFT are whole numbers.
#define GRAD_SHIFT(pad, r, tap, dilation, stride) (((pad) + (r) - (tap) * (dilation)) / (stride))
#define IS_WHOLE(pad, r, tap, dilation, stride) (((pad) + (r) - (tap) * (dilation)) % (stride) == 0)

TASK __kernel void conv_depthwise_spread(TENSOR(x), CTENSOR(grad), CTENSOR(weight), CTENSOR(bias),
                                         const Planes g) {
  OPEN_PLANES
  const int height = DIVIDE_UP(g.in_h, SY);
  for (int plane = first_plane; plane < last_plane; ++plane) {
    const int channel = plane % g.channels;
    __global const float *restrict source = CPTR(float, grad) + (size_t)plane * g.out_h * g.out_w;
    __global float *restrict to = PTR(float, x) + (size_t)plane * g.in_h * g.in_w;
    const VEC start = (VEC)(g.has_bias ? CPTR(float, bias)[channel] : 0.0f);
    float factor[KH * KW];
    for (int i = 0; i < KH * KW; ++i) factor[i] = CPTR(float, weight)[channel * (KH * KW) + i];
    for (int first = 0; first < height; first += g.rows_per_band) {
      const int last = min(height, first + g.rows_per_band);
      fill_band(band, source, first - g.pad_y, last - first + g.lines, g.out_h, g.out_w, g.pad_x,
                1, pitch, plane > first_plane && height <= g.rows_per_band);
      for (int v = first; v < last; ++v) {
        for (int u = 0; u * SX < g.in_w; u += VW) {
          const float *restrict from = band + (v - first + g.pad_y) * pitch + g.pad_x + u;
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
            if (v * SY + ry < g.in_h) {
              __global float *restrict place = to + (size_t)(v * SY + ry) * g.in_w + u * SX;
              VEC half_row[2];
              half_row[0].even = sum[ry][0].lo;
              half_row[0].odd = sum[ry][1].lo;
              half_row[1].even = sum[ry][0].hi;
              half_row[1].odd = sum[ry][1].hi;
              if ((u + VW) * SX <= g.in_w) {
                STORE_FLOATS(half_row[0], place);
                STORE_FLOATS(half_row[1], place + VW);
              } else {
                const int count = g.in_w - u * SX;
                store_few(place, half_row[0], min(count, VW));
                if (count > VW) store_few(place + VW, half_row[1], count - VW);
              }
            }
          }
        }
      }
    }
  }
}
#else

// Rows of the kernel whose sums are in registers at a time.
#if KH * KW <= 25
#define KERNEL_ROWS KH
#else
#define KERNEL_ROWS 1
#endif

TASK __kernel void conv_depthwise_weight(TENSOR(weight), CTENSOR(x), CTENSOR(grad),
                                         const Planes g) {
  const int pitch = g.pitch;
  float band[BAND], grads[BAND];
  const int channel = get_global_id(0);
  const int grad_pitch = ROUND_UP(g.out_w, VW);
  const int band_rows = min(g.out_h, g.rows_per_band);
  const int span = LINE_OF(LINES(band_rows));
  const int grad_span = band_rows * grad_pitch;
  // Computes as many images at a time as the bands hold.
  const int at_once = band_rows < g.out_h ? 1 : min((BAND - VW) / span, BAND / grad_span);
  float total[KH * KW];
  for (int i = 0; i < KH * KW; ++i) total[i] = 0.0f;
  for (int image = 0; image < g.images; image += at_once) {
    const int here = min(at_once, g.images - image);
    for (int first = 0; first < g.out_h; first += g.rows_per_band) {
      const int rows = min(g.out_h - first, g.rows_per_band);
      for (int n = 0; n < here; ++n) {
        const size_t plane = (size_t)(image + n) * g.channels + channel;
        fill_band(band + n * span, CPTR(float, x) + plane / g.multiplier * g.in_h * g.in_w,
                  first * SY - g.pad_y, LINES(rows), g.in_h, g.in_w, g.pad_x, SX, pitch,
                  image > 0 && band_rows == g.out_h);
        __global const float *restrict from =
            CPTR(float, grad) + (plane * g.out_h + first) * (size_t)g.out_w;
        float *restrict to = grads + n * grad_span;
        for (int row = 0; row < rows; ++row, from += g.out_w, to += grad_pitch) {
          STORE_FLOATS((VEC)(0.0f), to + grad_pitch - VW);
          copy_row(to, from, g.out_w, 1);
        }
      }
      for (int ky = 0; ky < KH; ky += KERNEL_ROWS) {
        VEC sum[KERNEL_ROWS][KW];
#pragma unroll
        for (int i = 0; i < KERNEL_ROWS; ++i)
#pragma unroll
          for (int kx = 0; kx < KW; ++kx) sum[i][kx] = (VEC)(0.0f);
        for (int n = 0; n < here; ++n) {
          for (int row = 0; row < rows; ++row) {
            const float *restrict line = band + n * span + LINE_OF(row * SY + ky * DY);
            for (int column = 0; column < g.out_w; column += VW) {
              const VEC value = LOAD_FLOATS(grads + n * grad_span + row * grad_pitch + column);
#pragma unroll
              for (int i = 0; i < KERNEL_ROWS; ++i)
#pragma unroll
                for (int kx = 0; kx < KW; ++kx)
                  sum[i][kx] =
                      fma(value, LOAD_FLOATS(line + LINE_OF(i * DY) + COLUMN_OF(kx) + column),
                          sum[i][kx]);
            }
          }
        }
#pragma unroll
        for (int i = 0; i < KERNEL_ROWS; ++i)
#pragma unroll
          for (int kx = 0; kx < KW; ++kx) total[(ky + i) * KW + kx] += sum_of_lanes(sum[i][kx]);
      }
    }
  }
  __global float *restrict to = PTR(float, weight) + channel * (KH * KW);
  for (int i = 0; i < KH * KW; ++i) to[i] = total[i];
}
#endif
