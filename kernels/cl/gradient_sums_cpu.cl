// What the gradients of normalisations need, in the CPU family: sum of g, and of g * (x - mean).
//   IN, COMPUTE; STAT: the type of mean and rstd
//   gradient_sums_rows: of each contiguous row; the mean of row r is number r / repeat % means.
//     work is [2][rows]. A task takes `per_task` rows. Grid: tasks.
//   gradient_sums_columns: of each column of [size][inner], in parts; work is [2][parts][inner].
//     BY_ROW: mean and rstd belong to rows, and the second sum is of g * (x - mean) * rstd; else
//     mean belongs to columns. A task takes WIDTH neighbouring columns. Grid: column blocks, parts.
#include "moments.clh"
#include "lanes.clh"

#define AT(p, i) CONVERT(T, LOADV(IN, p, i))
#define ONE(p, i) CAT(convert_, T)(LOAD(IN, p, i))

TASK __kernel void gradient_sums_rows(CTENSOR(grad), CTENSOR(in), CTENSOR(mean), TENSOR(work),
                                      const ulong rows, const ulong size, const ulong repeat,
                                      const ulong means, const ulong per_task) {
  const ulong last = min((get_global_id(0) + 1) * per_task, rows);
  for (ulong row = get_global_id(0) * per_task; row < last; ++row) {
    __global const MEM(IN) *g = CPTR(MEM(IN), grad) + row * size;
    __global const MEM(IN) *x = CPTR(MEM(IN), in) + row * size;
    const T m = CAT(convert_, T)(LOAD(STAT, CPTR(MEM(STAT), mean), row / repeat % means));
    V sum = (V)((T)0), dot = sum;
    ulong i = 0;
    for (; i + WIDTH <= size; i += WIDTH) {
      const V v = AT(g, i);
      sum += v;
      dot += v * (AT(x, i) - (V)(m));
    }
    T sum1 = sum_of_lanes(sum), dot1 = sum_of_lanes(dot);
    for (; i < size; ++i) {
      const T v = ONE(g, i);
      sum1 += v;
      dot1 += v * (ONE(x, i) - m);
    }
    PTR(T, work)[row] = sum1;
    PTR(T, work)[rows + row] = dot1;
  }
}

#define TAKE(value, p, i)                                 \
  V value;                                                \
  if (width == WIDTH) value = AT(p, i);                   \
  else LOAD_SOME(IN, value, p, i, width, 0)

TASK __kernel void gradient_sums_columns(CTENSOR(grad), CTENSOR(in), CTENSOR(mean), CTENSOR(rstd),
                                         TENSOR(work), const ulong size, const ulong inner,
                                         const ulong parts) {
  const ulong column = get_global_id(0) * WIDTH, part = get_global_id(1);
  PART_RANGE
  const int width = (int)min((ulong)WIDTH, inner - column);
  __global const MEM(IN) *g = CPTR(MEM(IN), grad) + column;
  __global const MEM(IN) *x = CPTR(MEM(IN), in) + column;
  V sum = (V)((T)0), dot = sum;
#ifndef BY_ROW
  V m;
  LOAD_SOME(STAT, m, CPTR(MEM(STAT), mean), column, width, 0)
#endif
  for (ulong row = from; row < to; ++row) {
    TAKE(v, g, row * inner)
    TAKE(w, x, row * inner)
#ifdef BY_ROW
    const V m = (V)(CAT(convert_, T)(LOAD(STAT, CPTR(MEM(STAT), mean), row)));
    dot += v * (w - m) * (V)(CAT(convert_, T)(LOAD(STAT, CPTR(MEM(STAT), rstd), row)));
#else
    dot += v * (w - m);
#endif
    sum += v;
  }
  T lane[WIDTH];
  CAT(vstore, WIDTH)(sum, 0, lane);
  for (int l = 0; l < width; ++l) PTR(T, work)[part * inner + column + l] = lane[l];
  CAT(vstore, WIDTH)(dot, 0, lane);
  for (int l = 0; l < width; ++l) PTR(T, work)[(parts + part) * inner + column + l] = lane[l];
}
