// Reductions of consecutive segments of a dimension, and their gradients. Data is
// [outer][size][inner], results [outer][segments][inner], offsets [outer][segments + 1].
//   IN: type of the data and the results; OFFSET: C type of the offsets
//   MEAN, PROD, MAX_OF or MIN_OF, else the sum; INITIAL: a reduction begins with `initial`
// A unit of the grid is a segment. GPUs leave segments of more than MOST elements to the kernels
// `_long`, where a work-group shares a segment (stripes.clh).
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "grid.clh"
#include "stripes.clh"
#include "segment_reduce_parameters.clh"

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

// Finds the elements of a segment: `length` elements from `first` on, `inner` apart. Checks the
// offsets even if the caller says that they are safe (`unsafe=True`).
#define FIND_SEGMENT                                                                      \
  const long block = (long)u / s.segments;                                                \
  __global const OFFSET *range = CPTR(OFFSET, offsets) + (long)u + block;                 \
  const long begin = clamp((long)range[0], 0L, s.size);                                   \
  const long length = clamp((long)range[1], 0L, s.size) - begin;                          \
  const long first = (block * s.size + begin) * s.inner + (long)i;                        \
  const ulong result = u * s.inner + i;

#ifdef MOST
#define SKIP_LONG if (length > MOST) continue;
#else
#define SKIP_LONG
#endif
#ifdef INITIAL
#define FIRST initial
#else
#define FIRST NEUTRAL
#endif
// The mean of no elements is NaN, or `initial`.
#if defined(MEAN) && defined(INITIAL)
#define FINISH(sum) if (length > 0) sum /= (T)length;
#elif defined(MEAN)
#define FINISH(sum) sum = length > 0 ? sum / (T)length : (T)NAN;
#else
#define FINISH(sum)
#endif
#ifdef MEAN
#define SHARE(g) ((g) / (T)length)
#else
#define SHARE(g) (g)
#endif
// Elements that equal the result share a positive gradient, as in PyTorch.
#define IS_RESULT(a) ((a) == y || isnan(a))
#define SHARE_OF_EQUALS(g, equal) ((equal) > 1 && (g) > 0 ? (g) / (T)(equal) : (g))

GRID __kernel void segment_reduce(CTENSOR(data), CTENSOR(offsets), TENSOR(out), const T initial,
                                  const Segments s, const ulong per_item) {
  FOR_UNITS(u, (ulong)(s.outer * s.segments), per_item) FOR_INNER(i, (ulong)s.inner) {
    FIND_SEGMENT
    SKIP_LONG
    T sum = FIRST;
    for (long j = 0; j < length; ++j) {
      const T x = LOAD(IN, CPTR(MEM(IN), data), first + j * s.inner);
      sum = STEP(sum, x);
    }
    FINISH(sum)
    STORE(IN, PTR(MEM(IN), out), result, sum);
  }
}

// Writes the gradient into zeros.
GRID __kernel void segment_backward(CTENSOR(grad), CTENSOR(value), CTENSOR(data), CTENSOR(offsets),
                                    TENSOR(out), const T initial, const Segments s,
                                    const ulong per_item) {
  FOR_UNITS(u, (ulong)(s.outer * s.segments), per_item) FOR_INNER(i, (ulong)s.inner) {
    FIND_SEGMENT
    SKIP_LONG
    __global const MEM(IN) *x = CPTR(MEM(IN), data) + first;
    __global MEM(IN) *to = PTR(MEM(IN), out) + first;
    const T g = LOAD(IN, CPTR(MEM(IN), grad), result);
    const T y = LOAD(IN, CPTR(MEM(IN), value), result);
#if defined(MAX_OF) || defined(MIN_OF)
    long equal = 0;
    for (long j = 0; j < length; ++j) equal += IS_RESULT(LOAD(IN, x, j * s.inner));
    const T share = SHARE_OF_EQUALS(g, equal);
    for (long j = 0; j < length; ++j)
      if (IS_RESULT(LOAD(IN, x, j * s.inner))) STORE(IN, to, j * s.inner, share);
#elif defined(PROD)
    for (long j = 0; j < length; ++j) {
      const T a = LOAD(IN, x, j * s.inner);
      T others = y / a;
      if (isnan(a) || a == 0) {
        others = FIRST;
        for (long k = 0; k < length; ++k)
          if (k != j) others *= LOAD(IN, x, k * s.inner);
      }
      STORE(IN, to, j * s.inner, g * others);
    }
#else
    for (long j = 0; j < length; ++j) STORE(IN, to, j * s.inner, SHARE(g));
#endif
  }
}

#ifdef MOST
#define FOR_LONG_SEGMENT                                                        \
  STRIPES                                                                       \
  const ulong i = column;                                                       \
  FOR_LONG(u, s.outer * s.segments, FIND_SEGMENT, length)                       \
    const ulong end = i < (ulong)s.inner ? (ulong)length : 0;
#define GROUP_OF_SEGMENT __kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))

GROUP_OF_SEGMENT void segment_reduce_long(CTENSOR(data), CTENSOR(offsets), TENSOR(out),
                                          const T initial, const Segments s,
                                          const StripeShare share) {
  __local T partial[GROUP];
  FOR_LONG_SEGMENT
    __global const MEM(IN) *x = CPTR(MEM(IN), data) + first;
    T sum = NEUTRAL;
    FOR_STRIPE(j, 0, end) {
      const T a = LOAD(IN, x, j * s.inner);
      sum = STEP(sum, a);
    }
    partial[item] = sum;
    JOIN_STRIPES(partial[item] = STEP(partial[item], partial[other]);)
    if (stripe == 0 && end > 0) {
      sum = STEP(FIRST, partial[item]);
      FINISH(sum)
      STORE(IN, PTR(MEM(IN), out), result, sum);
    }
  END_LONG
}

GROUP_OF_SEGMENT void segment_backward_long(CTENSOR(grad), CTENSOR(value), CTENSOR(data),
                                            CTENSOR(offsets), TENSOR(out), const T initial,
                                            const Segments s, const StripeShare share) {
#if defined(MAX_OF) || defined(MIN_OF)
  __local int equals[GROUP];
#endif
  FOR_LONG_SEGMENT
    __global const MEM(IN) *x = CPTR(MEM(IN), data) + first;
    __global MEM(IN) *to = PTR(MEM(IN), out) + first;
    const T g = end > 0 ? LOAD(IN, CPTR(MEM(IN), grad), result) : 0;
    const T y = end > 0 ? LOAD(IN, CPTR(MEM(IN), value), result) : 0;
#if defined(MAX_OF) || defined(MIN_OF)
    int equal = 0;
    FOR_STRIPE(j, 0, end) equal += IS_RESULT(LOAD(IN, x, j * s.inner));
    equals[item] = equal;
    JOIN_STRIPES(equals[item] += equals[other];)
    const T share_of_each = SHARE_OF_EQUALS(g, equals[item % lanes]);
    FOR_STRIPE(j, 0, end)
      if (IS_RESULT(LOAD(IN, x, j * s.inner))) STORE(IN, to, j * s.inner, share_of_each);
#else
    FOR_STRIPE(j, 0, end) STORE(IN, to, j * s.inner, SHARE(g));
#endif
  END_LONG
}
#endif
