// Image operators on single pixels; images are [image][channel][pixel], contiguous.
//   IN (and OUT), COMPUTE; one of
//     BLEND            blends each plane with a level (the image's in `levels`, else `low`)
//     NORMALIZE        normalizes each plane by its channel's mean and deviation
//     LUMA             the luminance, [image][pixel]
//     SATURATE, HUE    change the three colours of a pixel together
//     HUE_BACKWARD     from `grad` to the gradient of `in`
//   BYTES: see image_math.clh. CHANNELS of an image; RED, GREEN, BLUE: the channels of the colours;
//   ALPHA: the channel that is copied, or -1
// Grid (grid.clh): planes or images, blocks of WIDTH pixels. May work in place.
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "grid.clh"
#if WIDTH > 1
#include "lanes.clh"
#endif
#define IN_FLOAT(x) CONVERT(T, CONVERT(float, x))
#include "image_math.clh"
#ifdef HUE_BACKWARD
#include "image_hue_backward.clh"
#endif

#if WIDTH > 1
#define TAKE(value, p, i)                                              \
  V value;                                                             \
  if (count == WIDTH) value = CONVERT(T, LOADV(IN, p, i));             \
  else LOAD_SOME(IN, value, p, i, count, 0)
#define GIVE(p, i, value)                                              \
  if (count == WIDTH) STOREV(OUT, p, i, value);                        \
  else STORE_SOME(OUT, p, i, count, value)
#else
#define TAKE(value, p, i) T value = CAT(convert_, T)(LOAD(IN, p, i));
#define GIVE(p, i, value) STORE(OUT, p, i, value)
#endif
#define FOR_BLOCKS(i)                                                  \
  const ulong blocks = DIVIDE_UP(pixels, WIDTH);                       \
  FOR_INNER(i, blocks)
#define BLOCK(i)                                                       \
  const ulong at = (i) * WIDTH;                                        \
  const int count = (int)min((ulong)WIDTH, pixels - at);

#define FIND_IMAGES(n)                                                 \
  __global const MEM(IN) *x = CPTR(MEM(IN), in) + (n) * CHANNELS * pixels; \
  __global MEM(OUT) *y = PTR(MEM(OUT), out) + (n) * CHANNELS * pixels;
#define GIVE_COLORS(r, g, b)                                           \
  GIVE(y, RED * pixels + at, r);                                       \
  GIVE(y, GREEN * pixels + at, g);                                     \
  GIVE(y, BLUE * pixels + at, b);                                      \
  COPY_ALPHA(x, y)
#define TAKE_COLORS(x)                                                 \
  TAKE(r, x, RED * pixels + at)                                        \
  TAKE(g, x, GREEN * pixels + at)                                      \
  TAKE(b, x, BLUE * pixels + at)
#if ALPHA >= 0
#define COPY_ALPHA(x, y)                                               \
  TAKE(alpha, x, ALPHA * pixels + at)                                  \
  GIVE(y, ALPHA * pixels + at, alpha);
#else
#define COPY_ALPHA(x, y)
#endif

#ifdef BLEND
GRID __kernel void image_blend_planes(CTENSOR(in), CTENSOR(levels), TENSOR(out), const ulong planes,
                                      const ulong pixels, const ulong per_item, const T factor,
                                      const T low, const T high, const int leveled) {
  FOR_UNITS(plane, planes, per_item) {
    __global const MEM(IN) *x = CPTR(MEM(IN), in) + plane * pixels;
    __global MEM(OUT) *y = PTR(MEM(OUT), out) + plane * pixels;
    const int kept = (int)(plane % CHANNELS) == ALPHA;
    const V base = (V)(leveled ? CPTR(T, levels)[plane / CHANNELS] : low);
    FOR_BLOCKS(i) {
      BLOCK(i)
      TAKE(value, x, at)
      value = kept ? value : image_blend(base, value, factor, low, high);
      GIVE(y, at, value);
    }
  }
}
#endif

#ifdef NORMALIZE
typedef struct {
  T low, range, mean[4], deviation[4];
} Scales;
// Element c of four. Not an index, because a GPU would keep the array in memory instead of
// registers.
#define CHOSEN(four, c) ((c) == 0 ? four[0] : (c) == 1 ? four[1] : (c) == 2 ? four[2] : four[3])

// Computes the channels from `first` on, `channels` of them, 4 at most.
GRID __kernel void image_normalize_planes(CTENSOR(in), TENSOR(out), const ulong planes,
                                          const ulong pixels, const ulong per_item,
                                          const int first, const int channels,
                                          const Scales argument) {
  const Scales s = argument;  // a copy: see Quirk::kTableByCopy
  FOR_UNITS(n, planes, per_item) {
    const int c = (int)(n % channels);
    const ulong plane = n / channels * CHANNELS + first + c;
    const T mean = CHOSEN(s.mean, c), deviation = CHOSEN(s.deviation, c);
    __global const MEM(IN) *x = CPTR(MEM(IN), in) + plane * pixels;
    __global MEM(OUT) *y = PTR(MEM(OUT), out) + plane * pixels;
    FOR_BLOCKS(i) {
      BLOCK(i)
      TAKE(value, x, at)
      GIVE(y, at, image_normalize(value, s.low, s.range, mean, deviation));
    }
  }
}
#endif

#ifdef LUMA
GRID __kernel void image_luma_planes(CTENSOR(in), TENSOR(out), const ulong images,
                                     const ulong pixels, const ulong per_item, const T wr,
                                     const T wg, const T wb) {
  FOR_UNITS(n, images, per_item) {
    __global const MEM(IN) *x = CPTR(MEM(IN), in) + n * CHANNELS * pixels;
    __global MEM(OUT) *y = PTR(MEM(OUT), out) + n * pixels;
    FOR_BLOCKS(i) {
      BLOCK(i)
      TAKE_COLORS(x)
      GIVE(y, at, image_luma(r, g, b, wr, wg, wb));
    }
  }
}
#endif

#ifdef SATURATE
// The weights of the luminance, and the factors for blending the colours with it.
typedef struct {
  T red, green, blue, factor, low, high;
} Saturation;

GRID __kernel void image_saturate(CTENSOR(in), TENSOR(out), const ulong images, const ulong pixels,
                                  const ulong per_item, const Saturation c) {
  FOR_UNITS(n, images, per_item) {
    FIND_IMAGES(n)
    FOR_BLOCKS(i) {
      BLOCK(i)
      TAKE_COLORS(x)
      const V gray = image_luma(r, g, b, c.red, c.green, c.blue);
      r = image_blend(gray, r, c.factor, c.low, c.high);
      g = image_blend(gray, g, c.factor, c.low, c.high);
      b = image_blend(gray, b, c.factor, c.low, c.high);
      GIVE_COLORS(r, g, b)
    }
  }
}
#endif

#ifdef HUE
GRID __kernel void image_hue_pixels(CTENSOR(in), TENSOR(out), const ulong images,
                                    const ulong pixels, const ulong per_item, const T turn) {
  FOR_UNITS(n, images, per_item) {
    FIND_IMAGES(n)
    FOR_BLOCKS(i) {
      BLOCK(i)
      TAKE_COLORS(x)
#ifdef BYTES
      image_turn_hue_bytes(&r, &g, &b, turn);
#else
      image_turn_hue(&r, &g, &b, turn);
#endif
      GIVE_COLORS(r, g, b)
    }
  }
}
#endif

#ifdef HUE_BACKWARD
GRID __kernel void image_hue_backward(CTENSOR(grad), CTENSOR(in), TENSOR(out), const ulong images,
                                      const ulong pixels, const ulong per_item, const T turn) {
  FOR_UNITS(n, images, per_item) {
    __global const MEM(IN) *g = CPTR(MEM(IN), grad) + n * CHANNELS * pixels;
    FIND_IMAGES(n)
    FOR_INNER(i, pixels) {
      const T rgb[3] = {LOAD(IN, x, RED * pixels + i), LOAD(IN, x, GREEN * pixels + i),
                        LOAD(IN, x, BLUE * pixels + i)};
      T gradient[3] = {LOAD(IN, g, RED * pixels + i), LOAD(IN, g, GREEN * pixels + i),
                       LOAD(IN, g, BLUE * pixels + i)};
      image_turn_hue_backward(gradient, rgb, turn);
      STORE(OUT, y, RED * pixels + i, gradient[0]);
      STORE(OUT, y, GREEN * pixels + i, gradient[1]);
      STORE(OUT, y, BLUE * pixels + i, gradient[2]);
#if ALPHA >= 0
      STORE(OUT, y, ALPHA * pixels + i, LOAD(IN, g, ALPHA * pixels + i));
#endif
    }
  }
}
#endif
