// Maximum pooling of images and its gradient (pool.clh), or with ADAPTIVE that of equal shares of the
// image. Indices are positions in a plane.
//   max_pool: a NaN before all others, the first of equals.
//   max_pool_scatter: gradient, a task per plane (with CHANNELS_LAST: per CHANNELS channels of an
//     image) that adds what its windows' maxima got. Grid: tasks.
//   max_pool_gather: gradient, an element asks the windows over it.
#include "pool.clh"

#define CHANNELS 32

#ifdef FORWARD

// Rows and columns of the image under the window at output (y, x).
#ifdef ADAPTIVE
#define PLACE_WINDOW                                                                     \
  const long top = y * p.in_h / p.out_h, left = x * p.in_w / p.out_w;                    \
  const long bottom = ((y + 1) * p.in_h + p.out_h - 1) / p.out_h;                        \
  const long right = ((x + 1) * p.in_w + p.out_w - 1) / p.out_w;
#else
#define PLACE_WINDOW                                                                     \
  long top = y * p.stride_h - p.pad_h, left = x * p.stride_w - p.pad_w;                  \
  const long bottom = min(top + (p.kernel_h - 1) * p.dilation_h + 1, p.in_h);            \
  const long right = min(left + (p.kernel_w - 1) * p.dilation_w + 1, p.in_w);            \
  if (top < 0) top += (-top + p.dilation_h - 1) / p.dilation_h * p.dilation_h;           \
  if (left < 0) left += (-left + p.dilation_w - 1) / p.dilation_w * p.dilation_w;
#endif
#define FOR_WINDOW                                                                       \
  for (long h = top; h < bottom; h += p.dilation_h)                                      \
    for (long w = left; w < right; w += p.dilation_w)

// The maximum of the window of element i of row u.
#define POOL_ONE(u, i)                                                                   \
  {                                                                                      \
    LOCATE(u, i, p.out_h, p.out_w, p.in_h, p.in_w)                                       \
    PLACE_WINDOW                                                                         \
    long best = top * p.in_w + left;                                                     \
    T most = LOWEST;                                                                     \
    FOR_WINDOW {                                                                         \
      const T a = LOAD(IN, CPTR(MEM(IN), in), PIXEL(plane, h, w, p.in_w));               \
      if (a > most || IS_NAN(a)) {                                                       \
        most = a;                                                                        \
        best = h * p.in_w + w;                                                           \
      }                                                                                  \
    }                                                                                    \
    STORE(IN, PTR(MEM(IN), out), (u) * length + (i), most);                              \
    PTR(long, indices)[(u) * length + (i)] = best;                                       \
  }

#if WIDTH > 1 && defined(CHANNELS_LAST)
TASK __kernel void max_pool(CTENSOR(in), TENSOR(out), TENSOR(indices), const Pool p,
                            const ulong per_item) {
  const ulong length = ROW_LENGTH(p.out_w);
  FOR_UNITS(u, ROWS(p.out_h, p.out_w), per_item) {
    const ulong end = INNER_LAST(length);
    for (ulong i = INNER_FIRST(length); i < end; i += WIDTH) {
      LOCATE(u, i, p.out_h, p.out_w, p.in_h, p.in_w)
      PLACE_WINDOW
      __global const MEM(IN) *source = CPTR(MEM(IN), in) + plane;
      const int count = (int)min((ulong)WIDTH, end - i);
      V most = C(LOWEST);
      VEC(int) best = (VEC(int))((int)(top * p.in_w + left));
      FOR_WINDOW {
        const long n = h * p.in_w + w;
        V a;
        if (count == WIDTH) a = LOADV(IN, source, n * p.channels);
        else LOAD_SOME(IN, a, source, n * p.channels, count, 0)
        const VEC(int) better = (a > most) | (a != a);
        most = better ? a : most;
        best = better ? (VEC(int))((int)n) : best;
      }
      const ulong at = u * length + i;
      if (count == WIDTH) {
        STOREV(IN, PTR(MEM(IN), out), at, most);
        VSTORE(CONVERT(long, best), PTR(long, indices), at);
      } else {
        STORE_SOME(IN, PTR(MEM(IN), out), at, count, most)
        int lane[WIDTH];
        CAT(vstore, WIDTH)(best, 0, lane);
        for (int l = 0; l < count; ++l) PTR(long, indices)[at + l] = lane[l];
      }
    }
  }
}
#elif WIDTH > 1
// Where windows leave the image, one output at a time.
TASK __kernel void max_pool(CTENSOR(in), TENSOR(out), TENSOR(indices), const Pool p,
                            const ulong per_item) {
  const long length = p.out_w;
  const long last = INNER_LAST((ulong)length), first = min((long)INNER_FIRST(length), last);
  INSIDE_OUTPUTS
  FOR_UNITS(u, ROWS(p.out_h, p.out_w), per_item) {
    for (long i = first; i < begin; ++i) POOL_ONE((long)u, i)
    for (long next = begin; next < end; next += WIDTH) {
      const long i = min(next, end - WIDTH);
      LOCATE(u, i, p.out_h, p.out_w, p.in_h, p.in_w)
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
GRID __kernel void max_pool(CTENSOR(in), TENSOR(out), TENSOR(indices), const Pool p,
                            const ulong per_item) {
  const ulong length = ROW_LENGTH(p.out_w);
  FOR_UNITS(u, ROWS(p.out_h, p.out_w), per_item) FOR_INNER(i, length) POOL_ONE(u, i)
}
#endif

#else

TASK __kernel void max_pool_scatter(CTENSOR(grad), CTENSOR(indices), TENSOR(out), const Pool p,
                                    const ulong per_item) {
  const long parts = (p.channels + CHANNELS - 1) / CHANNELS;
  const long in_plane = p.in_h * p.in_w * p.channels, out_plane = p.out_h * p.out_w * p.channels;
  FOR_UNITS(u, (ulong)(p.planes * parts), per_item) {
    const long first = (long)u % parts * CHANNELS;
    const long channels = min((long)CHANNELS, p.channels - first);
    __global MEM(IN) *target = PTR(MEM(IN), out) + (long)u / parts * in_plane + first;
    __global const MEM(IN) *g = CPTR(MEM(IN), grad) + (long)u / parts * out_plane + first;
    __global const long *index = CPTR(long, indices) + (long)u / parts * out_plane + first;
    for (long i = 0; i < in_plane; i += p.channels)
      for (long c = 0; c < channels; ++c) STORE(IN, target, i + c, (T)0);
    for (long i = 0; i < out_plane; i += p.channels) {
      for (long c = 0; c < channels; ++c) {
        const long n = index[i + c] * p.channels + c;
        STORE(IN, target, n, LOAD(IN, target, n) + LOAD(IN, g, i + c));
      }
    }
  }
}

GRID __kernel void max_pool_gather(CTENSOR(grad), CTENSOR(indices), TENSOR(out), const Pool p,
                                   const ulong per_item) {
  const ulong length = ROW_LENGTH(p.in_w);
  FOR_UNITS(u, ROWS(p.in_h, p.in_w), per_item) FOR_INNER(i, length) {
    LOCATE(u, i, p.in_h, p.in_w, p.out_h, p.out_w)
    const long bottom = LAST_WINDOW(y, h), right = LAST_WINDOW(x, w);
    const long top = FIRST_WINDOW(y, h), left = FIRST_WINDOW(x, w);
    T sum = 0;
    for (long h = top; h <= bottom; ++h) {
      for (long w = left; w <= right; ++w) {
        const long n = PIXEL(plane, h, w, p.out_w);
        if (CPTR(long, indices)[n] == y * p.in_w + x) sum += LOAD(IN, CPTR(MEM(IN), grad), n);
      }
    }
    STORE(IN, PTR(MEM(IN), out), u * length + i, sum);
  }
}

#endif
