// Maximum pooling of images over windows, or with ADAPTIVE over equal shares of the image, and its
// gradient (max_pool.clh).
//   max_pool_scatter: gradient; a task per plane (with CHANNELS_LAST: per CHANNELS channels of an
//     image) adds the gradients of windows to their maxima. Indices outside of the plane are
//     ignored, as max_pool_gather does. Grid: tasks.
//   max_pool_gather: gradient; an element gathers from the windows that contain it.
#include "max_pool.clh"

#ifdef FORWARD

GRID __kernel void max_pool(CTENSOR(in), TENSOR(out), TENSOR(indices), const Pool p,
                            const ulong per_item) {
  const ulong length = ROW_LENGTH(p.out_w);
  FOR_UNITS(u, ROWS(p.out_h, p.out_w), per_item) FOR_INNER(i, length) POOL_ONE(u, i)
}

#else

#define CHANNELS 32

TASK __kernel void max_pool_scatter(CTENSOR(grad), CTENSOR(indices), TENSOR(out), const Pool p,
                                    const ulong per_item) {
#ifdef CHANNELS_LAST
  const long pixel = p.channels;
#else
  const long pixel = 1;
#endif
  const long parts = DIVIDE_UP(pixel, CHANNELS);
  const long in_plane = p.in_h * p.in_w * pixel, out_plane = p.out_h * p.out_w * pixel;
  FOR_UNITS(u, (ulong)(p.planes * parts), per_item) {
    const long first = (long)u % parts * CHANNELS;
    const long channels = min((long)CHANNELS, pixel - first);
    __global MEM(IN) *target = PTR(MEM(IN), out) + (long)u / parts * in_plane + first;
    __global const MEM(IN) *g = CPTR(MEM(IN), grad) + (long)u / parts * out_plane + first;
    __global const long *index = CPTR(long, indices) + (long)u / parts * out_plane + first;
    for (long i = 0; i < in_plane; i += pixel)
      for (long c = 0; c < channels; ++c) STORE(IN, target, i + c, (T)0);
    for (long i = 0; i < out_plane; i += pixel) {
      for (long c = 0; c < channels; ++c) {
        if ((ulong)index[i + c] >= (ulong)(p.in_h * p.in_w)) continue;
        const long n = index[i + c] * pixel + c;
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
    const Number bottom = LAST_WINDOW(y, h), right = LAST_WINDOW(x, w);
    const Number top = FIRST_WINDOW(y, h), left = FIRST_WINDOW(x, w);
    T sum = 0;
    for (Number h = top; h <= bottom; ++h) {
      for (Number w = left; w <= right; ++w) {
        const Number n = PIXEL(plane, h, w, p.out_w);
        if (CPTR(long, indices)[n] == y * p.in_w + x) sum += LOAD(IN, CPTR(MEM(IN), grad), n);
      }
    }
    STORE(IN, PTR(MEM(IN), out), u * length + i, sum);
  }
}

#endif
