// Gradient of an embedding, both families: rows of `grad` are added to the rows `index` of a zeroed
// result. A work-item owns columns and loops over all indices, so additions need not be atomic, and
// have the CPU's order. Indices out of range and `padding` are skipped.
//   IN: element type; INDEX: C type of the indices; SCALED: divides by the index's count
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "grid.clh"

GRID __kernel void embedding_backward(CTENSOR(grad), CTENSOR(index), TENSOR(out), CTENSOR(counts),
                                      const ulong indices, const ulong width, const long rows,
                                      const long padding) {
#ifdef TASKS
  const ulong first = INNER_FIRST(width), last = INNER_LAST(width);
#else
  const ulong first = get_global_id(0), last = min(first + 1, width);
#endif
  for (ulong n = 0; n < indices; ++n) {
    const long row = CPTR(INDEX, index)[n];
    if (row == padding || row < 0 || row >= rows) continue;
    __global MEM(IN) *to = PTR(MEM(IN), out) + (ulong)row * width;
    __global const MEM(IN) *from = CPTR(MEM(IN), grad) + n * width;
    ulong i = first;
#ifdef SCALED
    const T scale = (T)1 / (T)CPTR(int, counts)[row];
#define ADDED(x) ((x)*scale)
#else
#define ADDED(x) (x)
#endif
#if WIDTH > 1
    for (; i + WIDTH <= last; i += WIDTH) {
      const V x = CONVERT(T, LOADV(IN, from, i));
      STOREV(IN, to, i, CONVERT(T, LOADV(IN, to, i)) + ADDED(x));
    }
#endif
    for (; i < last; ++i) {
      const T x = LOAD(IN, from, i);
      STORE(IN, to, i, LOAD(IN, to, i) + ADDED(x));
    }
  }
}

__kernel void count_indices(CTENSOR(index), TENSOR(counts), const ulong indices, const long rows,
                            const ulong per_item) {
  const ulong last = min((get_global_id(0) + 1) * per_item, indices);
  for (ulong n = get_global_id(0) * per_item; n < last; ++n) {
    const long row = CPTR(INDEX, index)[n];
    if (row >= 0 && row < rows) atomic_inc(PTR(int, counts) + row);
  }
}
