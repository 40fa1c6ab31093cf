// Maximum pooling on CPU devices (max_pool.clh), by vectors (WIDTH of pool.clh). Grid: grid.clh.
//   max_pool_gather: gradient; an element gathers from the windows that contain it
//   ROOM: the most elements of a row, where HOP is 3
#include "max_pool.clh"

#ifdef CHANNELS_LAST
#define MAXIMA_OF_CHANNELS(c, count)                                                     \
  {                                                                                      \
    __global const MEM(IN) *source = CPTR(MEM(IN), in) + plane + (c);                    \
    V most[count];                                                                       \
    VEC(int) best[count];                                                                \
    FOR_VECTORS(k, count) {                                                              \
      most[k] = LOWEST;                                                                  \
      best[k] = (int)(top * p.in_w + left);                                              \
    }                                                                                    \
    FOR_WINDOW {                                                                         \
      const int n = (int)(h * p.in_w + w);                                               \
      FOR_VECTORS(k, count) {                                                            \
        const V a = LOADV(IN, source, n * p.channels + k * WIDTH);                       \
        const VEC(int) better = (a > most[k]) | (a != a);                                \
        most[k] = better ? a : most[k];                                                  \
        best[k] = better ? n : best[k];                                                  \
      }                                                                                  \
    }                                                                                    \
    const long at = (long)u * p.channels + (c);                                          \
    FOR_VECTORS(k, count) {                                                              \
      STOREV(IN, PTR(MEM(IN), out), at + k * WIDTH, most[k]);                            \
      VSTORE_GLOBAL(long, CONVERT(long, best[k]), PTR(long, indices), at + k * WIDTH);   \
    }                                                                                    \
  }

TASK __kernel void max_pool(CTENSOR(in), TENSOR(out), TENSOR(indices), const Pool p,
                            const ulong per_item) {
  BEGIN_PIXELS
  FOR_UNITS(u, ROWS(p.out_h, p.out_w), per_item) {
    if (last - first < WIDTH) {
      for (long i = first; i < last; ++i) POOL_ONE(u, i)
    } else {
      PLACE_WINDOW
      FOR_CHANNELS(MAXIMA_OF_CHANNELS, first, last)
    }
    NEXT_PIXEL
  }
}

// Channels from c on of pixel (y, x) of the gradient.
#define GATHER_(TYPE, LOAD_, STORE_, HITS, c, count, step)                               \
  {                                                                                      \
    __global const MEM(IN) *source = CPTR(MEM(IN), grad) + plane + (c);                  \
    __global const long *index = CPTR(long, indices) + plane + (c);                      \
    TYPE sum[count];                                                                     \
    FOR_VECTORS(k, count) sum[k] = 0;                                                    \
    for (long h = top; h <= bottom; ++h) {                                               \
      for (long w = left; w <= right; ++w) {                                             \
        const long n = PIXEL(0, h, w, p.out_w);                                          \
        FOR_VECTORS(k, count) sum[k] += HITS(index, n + k * step)                        \
                                            ? LOAD_(IN, source, n + k * step)            \
                                            : (TYPE)0;                                   \
      }                                                                                  \
    }                                                                                    \
    __global MEM(IN) *target = PTR(MEM(IN), out) + pixel * p.channels + (c);             \
    FOR_VECTORS(k, count) STORE_(IN, target, k * step, sum[k]);                          \
  }
#define HIT(index, n) (index[n] == position)
#define HITS(index, n) CONVERT(int, VLOAD_GLOBAL(long, index, n) == position)
#define GATHER(c, count) GATHER_(V, LOADV, STOREV, HITS, c, count, WIDTH)

TASK __kernel void max_pool_gather(CTENSOR(grad), CTENSOR(indices), TENSOR(out), const Pool p,
                                   const ulong per_item) {
  FOR_UNITS(u, (ulong)(p.planes * p.in_h), per_item) {
    const long y = (long)u % p.in_h, top = FIRST_WINDOW(y, h), bottom = LAST_WINDOW(y, h);
    const long plane = (long)u / p.in_h * p.out_h * p.out_w * p.channels;
    FOR_INNER(column, (ulong)p.in_w) {
      const long x = (long)column, left = FIRST_WINDOW(x, w), right = LAST_WINDOW(x, w);
      const long pixel = (long)u * p.in_w + x, position = y * p.in_w + x;
      if (p.channels < WIDTH)
        for (long c = 0; c < p.channels; ++c) GATHER_(T, LOAD, STORE, HIT, c, 1, 1)
      else FOR_CHANNELS(GATHER, 0, p.channels)
    }
  }
}

#elif HOP < 3
// Windows that are partly outside of the image are computed one output at a time.
TASK __kernel void max_pool(CTENSOR(in), TENSOR(out), TENSOR(indices), const Pool p,
                            const ulong per_item) {
  FIND_OUTPUTS
  FOR_UNITS(u, ROWS(p.out_h, p.out_w), per_item) {
    for (long i = first; i < begin; ++i) POOL_ONE((long)u, i)
    for (long next = begin; next < end; next += WIDTH) {
      FIND_VECTOR(next)
      PLACE_WINDOW
      const VEC(int) lanes = HOP * CONVERT(int, LANES);
      V most = LOWEST;
      VEC(int) best = (int)(top * p.in_w + left) + lanes;
      FOR_WINDOW {
        const long n = h * p.in_w + w;
        const V a = load_columns(CPTR(MEM(IN), in) + plane, n);
        const VEC(int) better = (a > most) | (a != a);
        most = better ? a : most;
        best = better ? (int)n + lanes : best;
      }
      STOREV(IN, PTR(MEM(IN), out), (long)u * length + i, most);
      VSTORE_GLOBAL(long, CONVERT(long, best), PTR(long, indices), (long)u * length + i);
    }
    for (long i = end; i < last; ++i) POOL_ONE((long)u, i)
  }
}

#else
// Whether position n with value a comes before position `best` with value `most`.
static inline bool is_better(const T a, const int n, const T most, const int best) {
  if (IS_NAN(a)) return !IS_NAN(most) || n > best;
  return a > most || (a == most && n < best);
}

// First computes the maximum of each column that a row of outputs covers, then of each window.
TASK __kernel void max_pool(CTENSOR(in), TENSOR(out), TENSOR(indices), const Pool p,
                            const ulong per_item) {
  __local T maxima[ROOM];
  __local int places[ROOM], starts[ROOM], ends[ROOM];
  const ulong length = (ulong)p.out_w;
  FOR_INNER(i, length) {
    const long x = (long)i, y = 0;
    PLACE_WINDOW
    starts[i] = (int)left;
    ends[i] = (int)right;
  }
  const long last = INNER_LAST(length), first = INNER_FIRST(length);
  if (first >= last) return;
  const long begin = starts[first], end = ends[last - 1];
  FOR_UNITS(u, ROWS(p.out_h, p.out_w), per_item) {
    LOCATE(u, first, p.out_h, p.out_w, p.in_h, p.in_w)
    PLACE_WINDOW
    __global const MEM(IN) *source = CPTR(MEM(IN), in) + plane;
    const long single = end - begin < WIDTH ? begin : end;  // the first output without vectors
    for (long next = begin; next < single; next += WIDTH) {
      const long w = min(next, end - WIDTH);
      V most = LOWEST;
      VEC(int) best = (int)(top * p.in_w + w) + CONVERT(int, LANES);
      for (long h = top; h < bottom; h += p.dilation_h) {
        const V a = LOADV(IN, source, h * p.in_w + w);
        const VEC(int) better = (a > most) | (a != a);
        most = better ? a : most;
        best = better ? (int)(h * p.in_w + w) + CONVERT(int, LANES) : best;
      }
      VSTORE_LOCAL(float, most, maxima, w);
      VSTORE_LOCAL(int, best, places, w);
    }
    for (long w = single; w < end; ++w) {
      T most = LOWEST;
      int best = (int)(top * p.in_w + w);
      for (long h = top; h < bottom; h += p.dilation_h) {
        const T a = LOAD(IN, source, h * p.in_w + w);
        if (a > most || IS_NAN(a)) {
          most = a;
          best = (int)(h * p.in_w + w);
        }
      }
      maxima[w] = most;
      places[w] = best;
    }
    for (long i = first; i < last; ++i) {
      T most = maxima[starts[i]];
      int best = places[starts[i]];
      for (long w = starts[i] + p.dilation_w; w < ends[i]; w += p.dilation_w) {
        if (!is_better(maxima[w], places[w], most, best)) continue;
        most = maxima[w];
        best = places[w];
      }
      STORE(IN, PTR(MEM(IN), out), u * length + (ulong)i, most);
      PTR(long, indices)[u * length + (ulong)i] = best;
    }
  }
}
#endif
