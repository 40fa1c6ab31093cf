// Sums overlapping windows, both families: element (y, x) of a plane of `out` gathers its values
// from all windows. columns[plane][i][j][window row][window column], all contiguous.
//   windows of 3, stride 1:   a b c        out: a   b + d   c + e   f
//                               d e f
//   IN: element type
// Grid (grid.clh): units are rows of out, inner elements their columns.
#include "common.clh"
#include "types.clh"
#ifdef COMPUTE_IS_COMPLEX
#include "complex.clh"
#else
#include "math.clh"
#endif
#include "grid.clh"

// Sizes in the two dimensions of a plane.
typedef struct {
  long out[2], windows[2], taps[2], dilation[2], padding[2], stride[2];
} Windows;

// The window whose tap number `tap` is at position `at`; -1 if there is none.
static inline long window_at(const Windows *w, const int dim, const long at, const long tap) {
  const long start = at + w->padding[dim] - tap * w->dilation[dim];
  if (start < 0 || start % w->stride[dim] != 0) return -1;
  const long window = start / w->stride[dim];
  return window < w->windows[dim] ? window : -1;
}

GRID __kernel void col2im(CTENSOR(columns), TENSOR(out), const ulong units, const ulong inner,
                          const ulong per_item, const Windows w) {
  FOR_UNITS(u, units, per_item) {
    const ulong plane = u / w.out[0], y = u % w.out[0];
    FOR_INNER(x, inner) {
      T sum = (T)(0);
      for (long i = 0; i < w.taps[0]; ++i) {
        const long row = window_at(&w, 0, y, i);
        if (row < 0) continue;
        for (long j = 0; j < w.taps[1]; ++j) {
          const long column = window_at(&w, 1, x, j);
          if (column < 0) continue;
          const ulong tap = (plane * w.taps[0] + i) * w.taps[1] + j;
          sum += LOAD(IN, CPTR(MEM(IN), columns),
                      (tap * w.windows[0] + row) * w.windows[1] + column);
        }
      }
      STORE(IN, PTR(MEM(IN), out), u * inner + x, sum);
    }
  }
}
