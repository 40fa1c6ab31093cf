// Affine transforms of images [image][channel][height][width] with Pillow's interpolation.
//   IN (and OUT), COMPUTE, BYTES; INTERPOLATION: 0 nearest, 1 bilinear, 2 bicubic
//   CHANNELS of an image
// The input position of the output pixel with centre (x, y) is m0 x + m1 y + m2 and m3 x + m4 y +
// m5. Pillow computes it in double precision, with centres at halves. With SHIFT it is computed in
// integers, in units of 2^-SHIFT for whole x and y: Pillow does so for nearest, and it is close for
// devices without double. image_affine: grid (grid.clh): rows of the output, columns.
// image_affine_backward: from `grad`, the gradient of the output, to `out`, the input's. An
// input pixel gathers from the outputs in the box that the inverse matrix b gives. It needs no
// atomic additions, so results repeat. Grid: rows of the input, columns.
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "grid.clh"
#include "image_math.clh"

#ifdef SHIFT
#define P long
#define POSITION(x, y, a, b, c) ((a) * (long)(x) + (b) * (long)(y) + (c))
#define SIZE(size) ((long)(size) << SHIFT)
#define HALF (1L << (SHIFT - 1))
#define WHOLE(p) ((int)((p) >> SHIFT))
#define PART(p) ((T)(uint)((ulong)(p) << (64 - SHIFT) >> 32) * (T)2.3283064365386963e-10f)
#else
#define P double
#define POSITION(x, y, a, b, c) ((a) * ((double)(x) + 0.5) + (b) * ((double)(y) + 0.5) + (c))
#define SIZE(size) ((double)(size))
#define HALF 0.5
#define WHOLE(p) whole_of(p)
#define PART(p) ((T)((p) - whole_of(p)))
// An inline floor(), because compilers call a function for floor().
static inline int whole_of(const double p) {
  const int towards_zero = (int)p;
  return towards_zero - ((double)towards_zero > p);
}
#endif
#define INSIDE(px, py) ((px) >= 0 && (py) >= 0 && (px) < SIZE(in_width) && (py) < SIZE(in_height))
#include "image_affine_parameters.clh"

typedef struct {
  P m[6];
} Matrix;
#define OPEN_ARGUMENTS                                                         \
  const ulong in_height = sizes.in_height, in_width = sizes.in_width;          \
  const ulong out_height = sizes.out_height, out_width = sizes.out_width;      \
  const P m0 = matrix.m[0], m1 = matrix.m[1], m2 = matrix.m[2];                \
  const P m3 = matrix.m[3], m4 = matrix.m[4], m5 = matrix.m[5];

#ifndef BACKWARD

#define PIXEL(x, y) CAT(convert_, T)(LOAD(IN, plane, (ulong)(y) * in_width + (x)))
#define LINE_LINEAR(y) image_linear(PIXEL(x0, y), PIXEL(x1, y), dx)
#define T4 CAT(T, 4)
#define COLUMN(x) ((T4)(PIXEL(x, y0), PIXEL(x, y1), PIXEL(x, y2), PIXEL(x, y3)))
#define NEAR(i, size) clamp((int)(i), 0, (int)(size) - 1)

GRID __kernel void image_affine(CTENSOR(in), TENSOR(out), const ulong rows, const ulong per_item,
                                const Sizes sizes, const Matrix matrix, CTENSOR(fills)) {
  OPEN_ARGUMENTS
  FOR_UNITS(row, rows, per_item) {
    const ulong image = row / out_height, y = row % out_height;
    FOR_INNER(x, out_width) {
      const P px = POSITION(x, y, m0, m1, m2), py = POSITION(x, y, m3, m4, m5);
      __global MEM(OUT) *to = PTR(MEM(OUT), out) +
                              (image * CHANNELS * out_height + y) * out_width + x;
      if (!INSIDE(px, py)) {
        for (int c = 0; c < CHANNELS; ++c)
          STORE(OUT, to, c * out_height * out_width, LOAD(OUT, CPTR(MEM(OUT), fills), c));
        continue;
      }
#if INTERPOLATION > 0
      const int left = WHOLE(px - HALF), top = WHOLE(py - HALF);
      const T dx = PART(px - HALF), dy = PART(py - HALF);
#endif
#if INTERPOLATION == 1
      const int x0 = NEAR(left, in_width), x1 = NEAR(left + 1, in_width);
      const int y0 = NEAR(top, in_height), y1 = NEAR(top + 1, in_height);
#elif INTERPOLATION == 2
      const int x0 = NEAR(left - 1, in_width), x1 = NEAR(left, in_width);
      const int x2 = NEAR(left + 1, in_width), x3 = NEAR(left + 2, in_width);
      const int y0 = NEAR(top - 1, in_height), y1 = NEAR(top, in_height);
      const int y2 = NEAR(top + 1, in_height), y3 = NEAR(top + 2, in_height);
#endif
      for (int c = 0; c < CHANNELS; ++c) {
        __global const MEM(IN) *plane =
            CPTR(MEM(IN), in) + (image * CHANNELS + c) * in_height * in_width;
#if INTERPOLATION == 0
        STORE(OUT, to, c * out_height * out_width,
              LOAD(IN, plane, (ulong)WHOLE(py) * in_width + WHOLE(px)));
#else
#if INTERPOLATION == 1
        T value = image_linear(LINE_LINEAR(y0), LINE_LINEAR(y1), dy);
#else
        const T4 a = COLUMN(x0), b = COLUMN(x1), c4 = COLUMN(x2), e = COLUMN(x3);
        const T4 line = IMAGE_CUBIC(a, b, c4, e, dx);
        T value = image_cubic(line.s0, line.s1, line.s2, line.s3, dy);
#endif
#ifdef BYTES
        value = clamp(value, (T)0, (T)255);
#endif
        STORE(OUT, to, c * out_height * out_width, value);
#endif
      }
    }
  }
}

#else

// The weight of pixel `i` of `size` in an output at position p.
static inline T weight_of(const int i, const int size, const P p) {
#if INTERPOLATION == 0
  return WHOLE(p) == i ? (T)1 : (T)0;
#else
  const int first = WHOLE(p - HALF);
  const T d = PART(p - HALF);
#if INTERPOLATION == 1
  const T w[2] = {(T)1 - d, d};
  const int shift = first;
#else
  T w[4];
  image_cubic_weights(w, d);
  const int shift = first - 1;
#endif
  T sum = (T)0;
  for (int k = 0; k < 2 * INTERPOLATION; ++k) {
    sum += clamp(shift + k, 0, size - 1) == i ? w[k] : (T)0;
  }
  return sum;
#endif
}

typedef struct {
  T b[6];
} Inverse;

GRID __kernel void image_affine_backward(CTENSOR(grad), TENSOR(out), const ulong rows,
                                         const ulong per_item, const Sizes sizes,
                                         const Matrix matrix, const Inverse inverse,
                                         const int invertible) {
  OPEN_ARGUMENTS
  const T *b = inverse.b;
  // The largest distance of positions that use a pixel.
  const T reach = INTERPOLATION == 0 ? (T)0.01f : INTERPOLATION == 1 ? (T)0.51f : (T)1.51f;
  FOR_UNITS(row, rows, per_item) {
    const ulong image = row / in_height;
    const int j = (int)(row % in_height);
    FOR_INNER(column, in_width) {
      const int i = (int)column;
      int left = 0, right = (int)out_width - 1, top = 0, bottom = (int)out_height - 1;
      if (invertible) {
        const T cx = (T)i + (T)0.5f, cy = (T)j + (T)0.5f, r = reach + (T)0.5f;
        const T x = b[0] * cx + b[1] * cy + b[2], y = b[3] * cx + b[4] * cy + b[5];
        const T dx = (fabs(b[0]) + fabs(b[1])) * r + (T)1;
        const T dy = (fabs(b[3]) + fabs(b[4])) * r + (T)1;
        left = max(left, (int)max(x - dx, (T)-1)), top = max(top, (int)max(y - dy, (T)-1));
        right = min(right, (int)min(x + dx, (T)out_width));
        bottom = min(bottom, (int)min(y + dy, (T)out_height));
      }
      T sum[CHANNELS];
      for (int c = 0; c < CHANNELS; ++c) sum[c] = (T)0;
      for (int y = top; y <= bottom; ++y) {
        for (int x = left; x <= right; ++x) {
          const P px = POSITION(x, y, m0, m1, m2), py = POSITION(x, y, m3, m4, m5);
          if (!INSIDE(px, py)) continue;
          const T weight = weight_of(i, (int)in_width, px) * weight_of(j, (int)in_height, py);
          if (weight == (T)0) continue;
          __global const MEM(IN) *g = CPTR(MEM(IN), grad) +
                                      (image * CHANNELS * out_height + y) * out_width + x;
          for (int c = 0; c < CHANNELS; ++c)
            sum[c] += weight * LOAD(IN, g, c * out_height * out_width);
        }
      }
      __global MEM(OUT) *to =
          PTR(MEM(OUT), out) + (image * CHANNELS * in_height + j) * in_width + i;
      for (int c = 0; c < CHANNELS; ++c) STORE(OUT, to, c * in_height * in_width, sum[c]);
    }
  }
}

#endif
