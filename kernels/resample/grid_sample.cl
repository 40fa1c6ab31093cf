// Samples of images or volumes at the points of a grid, and the gradients of both. The
// interpolation is separable: along each dimension a point has TAPS elements with weights, and
// `slopes`, the derivatives of the weights by the coordinate of the grid.
//   IN        type of all tensors except the workspace of the image's gradient, which has COMPUTE
//   DIMS      2 or 3 dimensions; TAPS: 1 (nearest), 2 (linear) or 4 (cubic)
//   BORDER or REFLECTION: the values outside of the image, else zeros; ALIGN: -1 and 1 are the
//   centres of pixels
//   grid_sample:       a unit is a row of points, with all channels of each
//   grid_sample_grid:  gradient of the grid; units as above
//   grid_sample_input: gradient of the image, which is zeroed before; a unit is a plane, and adds
//                      in the order of the points, from `first` to `last`
//   grid_sample_input_atomic: the same; units are rows of points, which add atomically
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "grid.clh"
#ifdef ATOMIC
#include "atomic_add.clh"
#endif

#include "grid_sample_parameters.clh"

typedef struct {
  long place[3][TAPS];  // -1: outside
  T weight[3][TAPS], slope[3][TAPS];
  T nothing;  // the result without taps: 0; NaN for a NaN coordinate, as on the CPU
} Taps;

#if DIMS == 2 && (TAPS == 4 || (TAPS == 2 && !defined(BORDER) && !defined(REFLECTION)))
#define KEEPS_NAN 1
#endif

// A NaN coordinate means the first pixel of an image and the last of a volume, as on the CPU.
static inline T clip(const T x, const long size, T *slope) {
  const T last = (T)(size - 1);
  if (isnan(x)) {
    *slope = 0;
    return DIMS == 3 ? last : 0;
  }
  if (x <= 0 || x >= last) *slope = 0;
  return fmin(last, fmax(x, (T)0));
}

static inline T reflect(const T x, const long twice_low, const long twice_high, T *slope) {
  if (twice_low == twice_high) {
    *slope = 0;
    return 0;
  }
  const T low = (T)twice_low / 2, span = (T)(twice_high - twice_low) / 2;
  const T distance = fabs(x - low);
  if (x < low) *slope = -*slope;
  const T extra = fmod(distance, span);
  if (fmod(floor(QUOTIENT(distance, span)), (T)2) == 0) return extra + low;
  *slope = -*slope;
  return span - extra + low;
}

static inline T inside(T x, const long size, T *slope) {
#ifdef REFLECTION
#ifdef ALIGN
  x = reflect(x, 0, 2 * (size - 1), slope);
#else
  x = reflect(x, -1, 2 * size - 1, slope);
#endif
#endif
#if defined(REFLECTION) || defined(BORDER)
  x = clip(x, size, slope);
#endif
  return x;
}

// Converts a coordinate to a position in elements; clamps coordinates far outside of any image.
static inline long place_of(const T x, const long size) {
  return x >= 0 && x < (T)size ? (long)x : -1;
}

static inline void find_taps(const T coordinate, const long size, const int d, Taps *taps) {
#ifdef ALIGN
  T slope = (T)(size - 1) / 2, x = (coordinate + 1) / 2 * (size - 1);
#else
  T slope = (T)size / 2, x = ((coordinate + 1) * size - 1) / 2;
#endif
#ifdef KEEPS_NAN
  taps->nothing += x - x;
#endif
#if TAPS == 4
  const T A = L(-0.75), first = floor(x), t = x - first;
  const T far = t + 1, near = 1 - t, farther = 2 - t;
  taps->weight[d][0] = ((A * far - 5 * A) * far + 8 * A) * far - 4 * A;
  taps->weight[d][1] = ((A + 2) * t - (A + 3)) * t * t + 1;
  taps->weight[d][2] = ((A + 2) * near - (A + 3)) * near * near + 1;
  taps->weight[d][3] = ((A * farther - 5 * A) * farther + 8 * A) * farther - 4 * A;
  taps->slope[d][0] = slope * ((3 * A * far - 10 * A) * far + 8 * A);
  taps->slope[d][1] = slope * (3 * (A + 2) * t - 2 * (A + 3)) * t;
  taps->slope[d][2] = -slope * (3 * (A + 2) * near - 2 * (A + 3)) * near;
  taps->slope[d][3] = -slope * ((3 * A * farther - 10 * A) * farther + 8 * A);
  for (int k = 0; k < 4; ++k) {
    T none = 0;
    taps->place[d][k] = place_of(inside(first - 1 + k, size, &none), size);
  }
#else
  x = inside(x, size, &slope);
#if TAPS == 2
  const T first = floor(x);
  taps->place[d][0] = place_of(first, size);
  taps->place[d][1] = place_of(first + 1, size);
  taps->weight[d][0] = first + 1 - x;
  taps->weight[d][1] = x - first;
  taps->slope[d][0] = -slope;
  taps->slope[d][1] = slope;
#else
  taps->place[d][0] = place_of(rint(x), size);
  taps->weight[d][0] = 1;
  taps->slope[d][0] = 0;
#endif
#endif
}

// Not a loop, because Mesa's compiler crashes if an index into a kernel argument is a variable.
#define FIND_TAPS_OF(point, d) \
  find_taps(LOAD(IN, CPTR(MEM(IN), grid), (point) * DIMS + d), s.size[d], d, &t);
#if DIMS == 3
#define FIND_TAPS(point) \
  Taps t;                \
  t.nothing = 0;         \
  FIND_TAPS_OF(point, 0) FIND_TAPS_OF(point, 1) FIND_TAPS_OF(point, 2)
#else
#define FIND_TAPS(point) \
  Taps t;                \
  t.nothing = 0;         \
  FIND_TAPS_OF(point, 0) FIND_TAPS_OF(point, 1)
#endif

#if DIMS == 3
#define FOR_DEPTH for (int c = 0; c < TAPS; ++c)
#define PLACE_DEPTH t.place[2][c]
#define DEPTH(of) t.of[2][c]
#else
#define FOR_DEPTH
#define PLACE_DEPTH 0
#define DEPTH(of) 1
#endif
// Loops over the taps that are inside; `at` is the tap's position in a plane.
#define FOR_TAPS                                                                             \
  FOR_DEPTH for (int b = 0; b < TAPS; ++b) for (int a = 0; a < TAPS; ++a) {                  \
    const long z = PLACE_DEPTH, y = t.place[1][b], x = t.place[0][a];                        \
    if (z < 0 || y < 0 || x < 0) continue;                                                   \
    const long at = (z * s.size[1] + y) * s.size[0] + x;
#define WEIGHT (DEPTH(weight) * t.weight[1][b] * t.weight[0][a])
#define PLANE (s.size[0] * s.size[1] * s.size[2])

GRID __kernel void grid_sample(CTENSOR(in), CTENSOR(grid), TENSOR(out), const Sampling s,
                               const ulong units, const ulong per_item) {
  FOR_UNITS(u, units, per_item) FOR_INNER(i, (ulong)s.row) {
    const long point = (long)(u * s.row + i), n = point / s.points;
    FIND_TAPS(point)
    __global const MEM(IN) *source = CPTR(MEM(IN), in) + n * s.channels * PLANE;
    const long first = n * s.channels * s.points + point % s.points;
    for (long channel = 0; channel < s.channels; ++channel, source += PLANE) {
      T sum = t.nothing;
      FOR_TAPS
        sum += LOAD(IN, source, at) * WEIGHT;
      }
      STORE(IN, PTR(MEM(IN), out), first + channel * s.points, sum);
    }
  }
}

GRID __kernel void grid_sample_grid(CTENSOR(grad), CTENSOR(in), CTENSOR(grid), TENSOR(out),
                                    const Sampling s, const ulong units, const ulong per_item) {
  FOR_UNITS(u, units, per_item) FOR_INNER(i, (ulong)s.row) {
    const long point = (long)(u * s.row + i), n = point / s.points;
    FIND_TAPS(point)
    __global const MEM(IN) *source = CPTR(MEM(IN), in) + n * s.channels * PLANE;
    const long first = n * s.channels * s.points + point % s.points;
    T sum[3] = {0, 0, 0};
    for (long channel = 0; channel < s.channels; ++channel, source += PLANE) {
      const T g = LOAD(IN, CPTR(MEM(IN), grad), first + channel * s.points);
      FOR_TAPS
        const T product = g * LOAD(IN, source, at);
        sum[0] += product * DEPTH(weight) * t.weight[1][b] * t.slope[0][a];
        sum[1] += product * DEPTH(weight) * t.slope[1][b] * t.weight[0][a];
        sum[2] += product * DEPTH(slope) * t.weight[1][b] * t.weight[0][a];
      }
    }
    for (int d = 0; d < DIMS; ++d) STORE(IN, PTR(MEM(IN), out), point * DIMS + d, sum[d]);
  }
}

GRID __kernel void grid_sample_input(CTENSOR(grad), CTENSOR(grid), TENSOR(out), const Sampling s,
                                     const ulong units, const ulong per_item, const long first,
                                     const long last) {
  FOR_UNITS(u, units, per_item) {
    const long n = (long)u / s.channels;
    __global T *target = PTR(T, out) + u * PLANE;
    for (long i = first; i < last; ++i) {
      FIND_TAPS(n * s.points + i)
      const T g = LOAD(IN, CPTR(MEM(IN), grad), u * s.points + i);
      FOR_TAPS
        target[at] += g * WEIGHT;
      }
    }
  }
}

#ifdef ATOMIC
__kernel void grid_sample_input_atomic(CTENSOR(grad), CTENSOR(grid), TENSOR(out), const Sampling s,
                                       const ulong units, const ulong per_item) {
  FOR_UNITS(u, units, per_item) FOR_INNER(i, (ulong)s.row) {
    const long point = (long)(u * s.row + i), n = point / s.points;
    FIND_TAPS(point)
    const long first = n * s.channels * s.points + point % s.points;
    for (long channel = 0; channel < s.channels; ++channel) {
      const T g = LOAD(IN, CPTR(MEM(IN), grad), first + channel * s.points);
      __global T *target = PTR(T, out) + (n * s.channels + channel) * PLANE;
      FOR_TAPS
        add_atomically(target + at, g * WEIGHT);
      }
    }
  }
}
#endif
