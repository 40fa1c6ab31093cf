// Reductions of consecutive segments of a dimension, and their gradients. Data is
// [outer][size][inner], results [outer][segments][inner], offsets [outer][segments + 1].
//   IN: type of the data and the results; OFFSET: C type of the offsets
//   MEAN, PROD, MAX_OF or MIN_OF, else the sum; INITIAL: a reduction begins with `initial`
// A unit of the grid is a segment.
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "grid.clh"

typedef struct {
  long outer, size, inner, segments;
} Segments;

#ifdef MAX_OF
#define NEUTRAL LOWEST
#define STEP(x, y) MAX(x, y)
#elif defined(MIN_OF)
#define NEUTRAL HIGHEST
#define STEP(x, y) MIN(x, y)
#elif defined(PROD)
#define NEUTRAL 1
#define STEP(x, y) ((x) * (y))
#else
#define NEUTRAL 0
#define STEP(x, y) ((x) + (y))
#endif

// Finds the elements of a segment: `length` elements from `first` on, `inner` apart. Offsets that
// the caller calls safe (`unsafe=True`) may still leave the data.
#define FIND_SEGMENT                                                                      \
  const long block = (long)u / s.segments;                                                \
  __global const OFFSET *range = CPTR(OFFSET, offsets) + (long)u + block;                 \
  const long begin = clamp((long)range[0], 0L, s.size);                                   \
  const long length = clamp((long)range[1], 0L, s.size) - begin;                          \
  const long first = (block * s.size + begin) * s.inner + (long)i;                        \
  const ulong result = u * s.inner + i;

GRID __kernel void segment_reduce(CTENSOR(data), CTENSOR(offsets), TENSOR(out), const T initial,
                                  const Segments s, const ulong per_item) {
  FOR_UNITS(u, (ulong)(s.outer * s.segments), per_item) FOR_INNER(i, (ulong)s.inner) {
    FIND_SEGMENT
#ifdef INITIAL
    T sum = initial;
#else
    T sum = NEUTRAL;
#endif
    for (long j = 0; j < length; ++j) {
      const T x = LOAD(IN, CPTR(MEM(IN), data), first + j * s.inner);
      sum = STEP(sum, x);
    }
#ifdef MEAN
    if (length > 0) sum /= (T)length;
#ifndef INITIAL
    if (length == 0) sum = NAN;
#endif
#endif
    STORE(IN, PTR(MEM(IN), out), result, sum);
  }
}

// Writes the gradient into zeros.
GRID __kernel void segment_backward(CTENSOR(grad), CTENSOR(value), CTENSOR(data), CTENSOR(offsets),
                                    TENSOR(out), const T initial, const Segments s,
                                    const ulong per_item) {
  FOR_UNITS(u, (ulong)(s.outer * s.segments), per_item) FOR_INNER(i, (ulong)s.inner) {
    FIND_SEGMENT
    __global const MEM(IN) *x = CPTR(MEM(IN), data) + first;
    __global MEM(IN) *to = PTR(MEM(IN), out) + first;
    const T g = LOAD(IN, CPTR(MEM(IN), grad), result);
    const T y = LOAD(IN, CPTR(MEM(IN), value), result);
#if defined(MAX_OF) || defined(MIN_OF)
    // As in PyTorch, equal elements share a positive gradient.
    long equal = 0;
    for (long j = 0; j < length; ++j) {
      const T a = LOAD(IN, x, j * s.inner);
      equal += a == y || isnan(a);
    }
    const T share = equal > 1 && g > 0 ? g / (T)equal : g;
    for (long j = 0; j < length; ++j) {
      const T a = LOAD(IN, x, j * s.inner);
      if (a == y || isnan(a)) STORE(IN, to, j * s.inner, share);
    }
#elif defined(PROD)
    for (long j = 0; j < length; ++j) {
      const T a = LOAD(IN, x, j * s.inner);
      T others = y / a;
      if (isnan(a) || a == 0) {
#ifdef INITIAL
        others = initial;
#else
        others = 1;
#endif
        for (long k = 0; k < length; ++k)
          if (k != j) others *= LOAD(IN, x, k * s.inner);
      }
      STORE(IN, to, j * s.inner, g * others);
    }
#else
#ifdef MEAN
    const T share = g / (T)length;
#else
    const T share = g;
#endif
    for (long j = 0; j < length; ++j) STORE(IN, to, j * s.inner, share);
#endif
  }
}
