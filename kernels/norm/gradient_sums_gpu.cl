// The two sums in gradients of normalisations, in the GPU family; see gradient_sums_cpu.cl.
//   gradient_sums_rows: a work-group per row. Grid: rows * GROUP.
//   gradient_sums_columns: a work-item per column and part. Grid: inner rounded up to GROUP, parts.
#include "moments.clh"
#include "group.clh"

#define FOUR(k) _Pragma("unroll") for (uint k = 0; k < 4; ++k)
#define AT(dt, p, i) CAT(convert_, T)(LOAD(dt, CPTR(MEM(dt), p), i))

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void gradient_sums_rows(
    CTENSOR(grad), CTENSOR(in), CTENSOR(mean), TENSOR(work), const ulong rows, const ulong size,
    const ulong repeat, const ulong means) {
  __local T partial[GROUP];
  const uint item = get_local_id(0);
  const ulong row = group_id(0);
  const T m = AT(STAT, mean, row / repeat % means);
  T sum = 0, dot = 0;
  ulong i = row * size + item;
  const ulong end = (row + 1) * size;
  for (; i + 3 * GROUP < end; i += 4 * GROUP) {  // waits for memory once
    T v[4], x[4];
    FOUR(k) v[k] = AT(IN, grad, i + k * GROUP);
    FOUR(k) x[k] = AT(IN, in, i + k * GROUP);
    FOUR(k) sum += v[k];
    FOUR(k) dot += v[k] * (x[k] - m);
  }
  for (; i < end; i += GROUP) {
    const T v = AT(IN, grad, i);
    sum += v;
    dot += v * (AT(IN, in, i) - m);
  }
  GROUP_REDUCE(sum, ADD)
  GROUP_REDUCE(dot, ADD)
  if (item == 0) {
    PTR(T, work)[row] = sum;
    PTR(T, work)[rows + row] = dot;
  }
}

__kernel void gradient_sums_columns(CTENSOR(grad), CTENSOR(in), CTENSOR(mean), CTENSOR(rstd),
                                    TENSOR(work), const ulong size, const ulong inner,
                                    const ulong parts) {
  const ulong column = get_global_id(0), part = get_global_id(1);
  if (column >= inner) return;
  PART_RANGE
  T sum = 0, dot = 0;
#ifdef BY_ROW
#define MEAN(row) AT(STAT, mean, row)
#define SCALE(row) AT(STAT, rstd, row)
#else
  const T of_column = AT(STAT, mean, column);
#define MEAN(row) of_column
#define SCALE(row) 1
#endif
  ulong row = from;
  for (; row + 4 <= to; row += 4) {  // waits for memory once
    T v[4], x[4];
    FOUR(k) v[k] = AT(IN, grad, (row + k) * inner + column);
    FOUR(k) x[k] = (AT(IN, in, (row + k) * inner + column) - MEAN(row + k)) * SCALE(row + k);
    FOUR(k) sum += v[k];
    FOUR(k) dot += v[k] * x[k];
  }
  for (; row < to; ++row) {
    const T v = AT(IN, grad, row * inner + column);
    sum += v;
    dot += v * ((AT(IN, in, row * inner + column) - MEAN(row)) * SCALE(row));
  }
  PTR(T, work)[part * inner + column] = sum;
  PTR(T, work)[(parts + part) * inner + column] = dot;
}
