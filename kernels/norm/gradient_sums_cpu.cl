// The two sums in gradients of normalisations, in the CPU family: of g, and of g * (x - mean).
//   IN, COMPUTE; STAT: the type of mean and rstd
//   gradient_sums_rows: of each contiguous row; the mean of row r is number r / repeat % means.
//     work is [2][rows]. A task takes `per_task` rows. Grid: tasks.
//   gradient_sums_columns: of each column of [size][inner], in parts; work is [2][parts][inner].
//     BY_ROW: mean and rstd belong to rows, and the second sum is of g * (x - mean) * rstd; else
//     mean belongs to columns. A task takes WIDTH * COLUMNS adjacent columns of one part.
//     Grid: column blocks, parts.
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

#define TAKE(value, p, i)                                                               \
  V value;                                                                              \
  if ((c + 1) * WIDTH <= width) value = AT(p, (i) + c * WIDTH);                         \
  else LOAD_SOME(IN, value, p, (i) + c * WIDTH, width - c * WIDTH, 0)
#define STAT_OF(p, row) CAT(convert_, T)(LOAD(STAT, CPTR(MEM(STAT), p), row))

TASK __kernel void gradient_sums_columns(CTENSOR(grad), CTENSOR(in), CTENSOR(mean), CTENSOR(rstd),
                                         TENSOR(work), const ulong size, const ulong inner,
                                         const ulong parts) {
  const ulong column = get_global_id(0) * (WIDTH * COLUMNS), part = get_global_id(1);
  PART_RANGE
  const int width = (int)min((ulong)(WIDTH * COLUMNS), inner - column);
  const int vectors = DIVIDE_UP(width, WIDTH);
  __global const MEM(IN) *g = CPTR(MEM(IN), grad) + column;
  __global const MEM(IN) *x = CPTR(MEM(IN), in) + column;
  // The sums stay in the cache, so that memory is read row by row.
  V sum[COLUMNS], dot[COLUMNS];
  for (int c = 0; c < vectors; ++c) sum[c] = dot[c] = (V)((T)0);
#ifndef BY_ROW
  V m[COLUMNS];
  for (int c = 0; c < vectors; ++c)
    LOAD_SOME(STAT, m[c], CPTR(MEM(STAT), mean), column + c * WIDTH, width - c * WIDTH, 0)
#endif
  for (ulong row = from; row < to; ++row) {
#ifdef BY_ROW
    const V m = (V)(STAT_OF(mean, row)), scale = (V)(STAT_OF(rstd, row));
#define TERM(v, w) ((v) * ((w) - m) * scale)
#else
#define TERM(v, w) ((v) * ((w) - m[c]))
#endif
    for (int c = 0; c < vectors; ++c) {
      TAKE(v, g, row * inner)
      TAKE(w, x, row * inner)
      sum[c] += v;
      dot[c] += TERM(v, w);
    }
  }
  for (int c = 0; c < vectors; ++c) {
    __global T *sums = PTR(T, work) + part * inner + column + c * WIDTH;
    __global T *dots = sums + parts * inner;
    T lane[WIDTH], other[WIDTH];
    CAT(vstore, WIDTH)(sum[c], 0, lane);
    CAT(vstore, WIDTH)(dot[c], 0, other);
    for (int l = 0; l < WIDTH && c * WIDTH + l < width; ++l) {
      sums[l] = lane[l];
      dots[l] = other[l];
    }
  }
}
