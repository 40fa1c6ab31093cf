// Average pooling of images over windows, or with ADAPTIVE over equal shares of the image, and its
// gradient (avg_pool.clh). An element of the gradient gathers from the windows that contain it.
#include "avg_pool.clh"

GRID __kernel void avg_pool(CTENSOR(in), TENSOR(out), const Pool p, const ulong per_item) {
  const ulong length = ROW_LENGTH(p.out_w);
  FOR_UNITS(u, ROWS(p.out_h, p.out_w), per_item) FOR_INNER(i, length) AVERAGE_ONE(u, i)
}

GRID __kernel void avg_pool_backward(CTENSOR(in), TENSOR(out), const Pool p,
                                     const ulong per_item) {
  const ulong length = ROW_LENGTH(p.in_w);
  FOR_UNITS(u, ROWS(p.in_h, p.in_w), per_item) FOR_INNER(i, length) {
    LOCATE(u, i, p.in_h, p.in_w, p.out_h, p.out_w)
    const Number bottom = LAST_WINDOW(y, h), right = LAST_WINDOW(x, w), left = FIRST_WINDOW(x, w);
    T sum = 0;
    for (Number h = FIRST_WINDOW(y, h); h <= bottom; ++h) {
      const Window rows = WINDOW(h, h);
      for (Number w = left; w <= right; ++w) {
        const T g = LOAD(IN, CPTR(MEM(IN), in), PIXEL(plane, h, w, p.out_w));
        sum += g / divisor_of(rows, WINDOW(w, w), &p);
      }
    }
    STORE(IN, PTR(MEM(IN), out), u * length + i, sum);
  }
}
