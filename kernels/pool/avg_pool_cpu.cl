// Average pooling on CPU devices (avg_pool.clh), by vectors (WIDTH of pool.clh). Grid: grid.clh;
// with CHANNELS_LAST the units of avg_pool are pixels, else units are rows.
//   ROOM: the most elements of a row or column, in backward passes and where HOP is 3
#include "avg_pool.clh"

// Each element of a window gets a share of its gradient: a factor for the row times a factor for
// the column.
#define FIND_SHARES                                                                      \
  __local T row_share[ROOM], column_share[ROOM];                                         \
  for (long i = 0; i < p.out_h; ++i)                                                     \
    row_share[i] = p.divisor ? 1 : 1 / (T)count_of(WINDOW(i, h), &p);                    \
  for (long i = 0; i < p.out_w; ++i)                                                     \
    column_share[i] = 1 / (T)(p.divisor ? p.divisor : count_of(WINDOW(i, w), &p));

#ifdef CHANNELS_LAST
#define AVERAGE_CHANNELS(c, count)                                                       \
  {                                                                                      \
    __global const MEM(IN) *source = CPTR(MEM(IN), in) + plane + (c);                    \
    V sum[count];                                                                        \
    FOR_VECTORS(k, count) sum[k] = 0;                                                    \
    for (long h = rows.start; h < rows.end; ++h)                                         \
      for (long w = columns.start; w < columns.end; ++w)                                 \
        FOR_VECTORS(k, count) sum[k] += LOADV(IN, source, PIXEL(k * WIDTH, h, w, p.in_w)); \
    __global MEM(IN) *target = PTR(MEM(IN), out) + (long)u * p.channels + (c);           \
    FOR_VECTORS(k, count) STOREV(IN, target, k * WIDTH, sum[k] / divisor);               \
  }

TASK __kernel void avg_pool(CTENSOR(in), TENSOR(out), const Pool p, const ulong per_item) {
  BEGIN_PIXELS
  FOR_UNITS(u, ROWS(p.out_h, p.out_w), per_item) {
    if (last - first < WIDTH) {
      for (long i = first; i < last; ++i) AVERAGE_ONE(u, i)
    } else {
      const Window rows = WINDOW(y, h), columns = WINDOW(x, w);
      const T divisor = divisor_of(rows, columns, &p);
      FOR_CHANNELS(AVERAGE_CHANNELS, first, last)
    }
    NEXT_PIXEL
  }
}

// Channels from c on of pixel (y, x) of the gradient: the sum of the shares of the windows that
// contain it.
#define SPREAD_(TYPE, LOAD_, STORE_, c, count, step)                                     \
  {                                                                                      \
    __global const MEM(IN) *source = CPTR(MEM(IN), in) + plane + (c);                    \
    TYPE sum[count];                                                                     \
    FOR_VECTORS(k, count) sum[k] = 0;                                                    \
    for (long h = top; h <= bottom; ++h) {                                               \
      for (long w = left; w <= right; ++w) {                                             \
        const T share = row_share[h] * column_share[w];                                  \
        FOR_VECTORS(k, count) sum[k] +=                                                  \
            LOAD_(IN, source, PIXEL(k * step, h, w, p.out_w)) * share;                   \
      }                                                                                  \
    }                                                                                    \
    __global MEM(IN) *target = PTR(MEM(IN), out) + pixel * p.channels + (c);             \
    FOR_VECTORS(k, count) STORE_(IN, target, k * step, sum[k]);                          \
  }
#define SPREAD(c, count) SPREAD_(V, LOADV, STOREV, c, count, WIDTH)

TASK __kernel void avg_pool_backward(CTENSOR(in), TENSOR(out), const Pool p,
                                     const ulong per_item) {
  FIND_SHARES
  FOR_UNITS(u, (ulong)(p.planes * p.in_h), per_item) {
    const long y = (long)u % p.in_h, top = FIRST_WINDOW(y, h), bottom = LAST_WINDOW(y, h);
    const long plane = (long)u / p.in_h * p.out_h * p.out_w * p.channels;
    FOR_INNER(column, (ulong)p.in_w) {
      const long x = (long)column, left = FIRST_WINDOW(x, w), right = LAST_WINDOW(x, w);
      const long pixel = (long)u * p.in_w + x;
      if (p.channels < WIDTH)
        for (long c = 0; c < p.channels; ++c) SPREAD_(T, LOAD, STORE, c, 1, 1)
      else FOR_CHANNELS(SPREAD, 0, p.channels)
    }
  }
}

#else

#if HOP < 3
// Windows that are partly outside of the image are computed one output at a time.
TASK __kernel void avg_pool(CTENSOR(in), TENSOR(out), const Pool p, const ulong per_item) {
  FIND_OUTPUTS
  FOR_UNITS(u, ROWS(p.out_h, p.out_w), per_item) {
    for (long i = first; i < begin; ++i) AVERAGE_ONE((long)u, i)
    for (long next = begin; next < end; next += WIDTH) {
      FIND_VECTOR(next)
      const Window rows = WINDOW(y, h), columns = WINDOW(x, w);
      V sum = 0;
      for (long h = rows.start; h < rows.end; ++h)
        for (long w = columns.start; w < columns.end; ++w)
          sum += load_columns(CPTR(MEM(IN), in) + plane, h * p.in_w + w);
      STOREV(IN, PTR(MEM(IN), out), (long)u * length + i, sum / divisor_of(rows, columns, &p));
    }
    for (long i = end; i < last; ++i) AVERAGE_ONE((long)u, i)
  }
}
#else
// First sums the rows that a row of outputs covers, then the elements of each window.
TASK __kernel void avg_pool(CTENSOR(in), TENSOR(out), const Pool p, const ulong per_item) {
  __local T sums[ROOM], counts[ROOM];
  __local int starts[ROOM], ends[ROOM];
  const ulong length = (ulong)p.out_w;
  FOR_INNER(i, length) {
    const Window columns = WINDOW((long)i, w);
    starts[i] = (int)columns.start;
    ends[i] = (int)columns.end;
    counts[i] = (T)(p.divisor ? p.divisor : count_of(columns, &p));
  }
  const long last = INNER_LAST(length), first = INNER_FIRST(length);
  if (first >= last) return;
  const long begin = starts[first], end = ends[last - 1];
  FOR_UNITS(u, ROWS(p.out_h, p.out_w), per_item) {
    LOCATE(u, first, p.out_h, p.out_w, p.in_h, p.in_w)
    const Window rows = WINDOW(y, h);
    __global const MEM(IN) *source = CPTR(MEM(IN), in) + plane;
    const long single = end - begin < WIDTH ? begin : end;  // the first output without vectors
    for (long next = begin; next < single; next += WIDTH) {
      const long w = min(next, end - WIDTH);
      V sum = 0;
      for (long h = rows.start; h < rows.end; ++h) sum += LOADV(IN, source, h * p.in_w + w);
      VSTORE_LOCAL(float, sum, sums, w);
    }
    for (long w = single; w < end; ++w) {
      T sum = 0;
      for (long h = rows.start; h < rows.end; ++h) sum += LOAD(IN, source, h * p.in_w + w);
      sums[w] = sum;
    }
    const T count = p.divisor ? 1 : (T)count_of(rows, &p);
    for (long i = first; i < last; ++i) {
      T sum = 0;
      for (long w = starts[i]; w < ends[i]; ++w) sum += sums[w];
      STORE(IN, PTR(MEM(IN), out), u * length + (ulong)i, sum / (count * counts[i]));
    }
  }
}
#endif

// Rows of the image that are covered by the same rows of windows have the same gradient, which is
// computed once and stored for each of them. First each column of windows is summed into `sums`.
// Then each sum is spread over the pixels that its windows cover, into `spread`. `sums` begins
// after `front` elements, `spread` after the padding; zeros surround both.
TASK __kernel void avg_pool_backward(CTENSOR(in), TENSOR(out), const Pool p,
                                     const ulong per_item) {
  __local T sums[ROOM], spread[ROOM];
  const long front = p.kernel_w;
  for (long i = 0; i < front + p.pad_w + max(p.in_w, p.out_w) + 2 * WIDTH; ++i)
    sums[i] = spread[i] = 0;
  FIND_SHARES

  long seen_plane = -1, seen_top = 0, seen_bottom = 0;
  const long first = INNER_FIRST((ulong)p.in_w), last = INNER_LAST((ulong)p.in_w);
  FOR_UNITS(u, ROWS(p.in_h, p.in_w), per_item) {
    LOCATE(u, 0, p.in_h, p.in_w, p.out_h, p.out_w)
    const long top = FIRST_WINDOW(y, h), bottom = LAST_WINDOW(y, h);
    if (plane != seen_plane || top != seen_top || bottom != seen_bottom) {
      seen_plane = plane, seen_top = top, seen_bottom = bottom;
      __global const MEM(IN) *source = CPTR(MEM(IN), in) + plane;
      const long vectors = p.out_w < WIDTH ? 0 : p.out_w;
      for (long next = 0; next < vectors; next += WIDTH) {
        const long i = min(next, p.out_w - WIDTH);
        V sum = 0;
        for (long h = top; h <= bottom; ++h)
          sum += LOADV(IN, source, h * p.out_w + i) * row_share[h];
        VSTORE_LOCAL(float, sum * VLOAD_LOCAL(float, column_share, i), sums + front, i);
      }
      for (long i = vectors; i < p.out_w; ++i) {
        T sum = 0;
        for (long h = top; h <= bottom; ++h)
          sum += LOAD(IN, source, h * p.out_w + i) * row_share[h];
        sums[front + i] = sum * column_share[i];
      }
#if HOP < 3
      for (long i = 0; i * HOP < p.in_w + p.pad_w; i += WIDTH) {
        V even = 0, odd = 0;
        for (long k = 0; k < p.kernel_w; k += HOP) {
          const V g = VLOAD_LOCAL(float, sums + front, i - k / HOP);
          even += g;
          if (k + 1 < p.kernel_w) odd += g;
        }
#if HOP == 1
        VSTORE_LOCAL(float, even, spread, i);
#else
        V low, high;
        low.even = even.lo, low.odd = odd.lo;
        high.even = even.hi, high.odd = odd.hi;
        VSTORE_LOCAL(float, low, spread, 2 * i);
        VSTORE_LOCAL(float, high, spread, 2 * i + WIDTH);
#endif
      }
#else
      for (long i = 0; i < p.in_w; ++i) spread[p.pad_w + i] = 0;
      for (long i = 0; i < p.out_w; ++i) {
        const Window columns = WINDOW(i, w);
        const T g = sums[front + i];
        for (long w = columns.start; w < columns.end; ++w) spread[p.pad_w + w] += g;
      }
#endif
    }
    __global MEM(IN) *target = PTR(MEM(IN), out) + (long)u * p.in_w;
    if (last - first < WIDTH) {
      for (long i = first; i < last; ++i) STORE(IN, target, i, spread[p.pad_w + i]);
    } else {
      for (long next = first; next < last; next += WIDTH) {
        const long i = min(next, last - WIDTH);
        STOREV(IN, target, i, VLOAD_LOCAL(float, spread + p.pad_w, i));
      }
    }
  }
}
#endif
