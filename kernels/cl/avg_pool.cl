// Average pooling of images over windows, or with ADAPTIVE over equal shares of the image, and its
// gradient (pool.clh): an element of the gradient asks the windows over it.
#include "pool.clh"

// Of output o along a dimension: its elements are start .. end - 1; `all`: with padding.
typedef struct {
  long start, end, all;
} Window;

#ifdef ADAPTIVE
#define WINDOW(o, dim) share_of(o, p.out_##dim, p.in_##dim)
static inline Window share_of(const long o, const long outputs, const long inputs) {
  const long start = o * inputs / outputs, end = ((o + 1) * inputs + outputs - 1) / outputs;
  const Window w = {start, end, end - start};
  return w;
}
#define FIRST(i, dim) ((i)*p.out_##dim / p.in_##dim)
#define LAST(i, dim) (((i + 1) * p.out_##dim + p.in_##dim - 1) / p.in_##dim - 1)
#else
#define WINDOW(o, dim) window_of(o, p.in_##dim, p.kernel_##dim, p.stride_##dim, p.pad_##dim)
static inline Window window_of(const long o, const long inputs, const long kernel_size, const long stride,
                        const long pad) {
  const long start = o * stride - pad, end = min(start + kernel_size, inputs + pad);
  const Window w = {max(start, 0L), min(end, inputs), end - start};
  return w;
}
#define FIRST(i, dim) \
  max(0L, ((i) + p.pad_##dim - p.kernel_##dim + p.stride_##dim) / p.stride_##dim)
#define LAST(i, dim) min(p.out_##dim - 1, ((i) + p.pad_##dim) / p.stride_##dim)
#endif

static inline T divisor_of(const Window h, const Window w, const Pool *p) {
  const long existing = (h.end - h.start) * (w.end - w.start);
  return (T)(p->divisor ? p->divisor : p->count_padding ? h.all * w.all : existing);
}

GRID __kernel void avg_pool(CTENSOR(in), TENSOR(out), const Pool p, const ulong per_item) {
  const ulong length = ROW_LENGTH(p.out_w);
  FOR_UNITS(u, ROWS(p.out_h, p.out_w), per_item) FOR_INNER(i, length) {
    LOCATE(u, i, p.out_h, p.out_w, p.in_h, p.in_w)
    const Window rows = WINDOW(y, h), columns = WINDOW(x, w);
    T sum = 0;
    for (long h = rows.start; h < rows.end; ++h)
      for (long w = columns.start; w < columns.end; ++w)
        sum += LOAD(IN, CPTR(MEM(IN), in), PIXEL(plane, h, w, p.in_w));
    if (rows.start < rows.end && columns.start < columns.end) sum /= divisor_of(rows, columns, &p);
    STORE(IN, PTR(MEM(IN), out), u * length + i, sum);
  }
}

GRID __kernel void avg_pool_backward(CTENSOR(in), TENSOR(out), const Pool p,
                                     const ulong per_item) {
  const ulong length = ROW_LENGTH(p.in_w);
  FOR_UNITS(u, ROWS(p.in_h, p.in_w), per_item) FOR_INNER(i, length) {
    LOCATE(u, i, p.in_h, p.in_w, p.out_h, p.out_w)
    const long bottom = LAST(y, h), right = LAST(x, w), left = FIRST(x, w);
    T sum = 0;
    for (long h = FIRST(y, h); h <= bottom; ++h) {
      const Window rows = WINDOW(h, h);
      for (long w = left; w <= right; ++w) {
        const T g = LOAD(IN, CPTR(MEM(IN), in), PIXEL(plane, h, w, p.out_w));
        sum += g / divisor_of(rows, WINDOW(w, w), &p);
      }
    }
    STORE(IN, PTR(MEM(IN), out), u * length + i, sum);
  }
}
