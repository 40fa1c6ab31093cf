// Softmax and log-softmax of the GPU family, over `size` elements that are `inner` apart. Defines
// as in softmax_cpu.cl; GROUP: the work-group size.
//   softmax_group (inner == 1): row_items.clh. Grid: rows << row_shift, rounded up to GROUP.
//   softmax_item: a work-item per column. Grid: rows * inner, rounded up to GROUP.
// Both may work in place.
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "row_items.clh"

#ifdef BACKWARD
#define PARAMS CTENSOR(grad), CTENSOR(in), TENSOR(out)
#define G(i) CAT(convert_, T)(LOAD(IN, CPTR(MEM(IN), grad), i))
#else
#define PARAMS CTENSOR(in), TENSOR(out)
#endif
#define X(i) CAT(convert_, T)(LOAD(IN, CPTR(MEM(IN), in), i))
#define RESULT(i, value) STORE(OUT, PTR(MEM(OUT), out), i, value)

#ifdef LOG
#define FACTOR(sum) log(sum)
#define FORWARD(x, peak, factor) ((x) - (peak) - (factor))
#define TERM(g, y) (g)
#define GRADIENT(g, y, sum) ((g)-exp(y) * (sum))
#else
#define FACTOR(sum) ((T)1 / (sum))
#define FORWARD(x, peak, factor) (exp((x) - (peak)) * (factor))
#define TERM(g, y) ((g) * (y))
#define GRADIENT(g, y, sum) (((g) - (sum)) * (y))
#endif

#define X_AT(i) X(row * size + (i))
#define G_AT(i) G(row * size + (i))
#define X_OF(k, i) ROW_VALUE(x, X_AT, k, i)
#define G_OF(k, i) ROW_VALUE(g, G_AT, k, i)

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void softmax_group(
    PARAMS, const ulong rows, const ulong size, const ulong inner, const uint row_shift) {
  __local T partial[GROUP];
  ROW_OF_ITEM(rows, row_shift)
  KEPT_ROW(x, X_AT)
#ifndef BACKWARD
#define JOIN_PEAK(x, i) peak = GREATER(x, peak);
#define ADD_EXP(x, i) sum += exp((x) - peak);
#define WRITE(x, i) RESULT(row * size + (i), FORWARD(x, peak, factor));
  T peak = -INFINITY;
  ROW_EACH(x, X_AT, JOIN_PEAK)
  ROW_REDUCE(peak, GREATER)
  T sum = 0;
  ROW_EACH(x, X_AT, ADD_EXP)
  ROW_REDUCE(sum, ADD)
  const T factor = FACTOR(sum);
  if (!is_row) return;
  ROW_EACH(x, X_AT, WRITE)
#else
  KEPT_ROW(g, G_AT)
  T sum = 0;
  FOR_ROW(k, i) sum += TERM(G_OF(k, i), X_OF(k, i));
  ROW_REDUCE(sum, ADD)
  if (!is_row) return;
  FOR_ROW(k, i) RESULT(row * size + i, GRADIENT(G_OF(k, i), X_OF(k, i), sum));
#endif
}

__kernel void softmax_item(PARAMS, const ulong rows, const ulong size, const ulong inner) {
  const ulong n = get_global_id(0);
  if (n >= rows * inner) return;
  const ulong start = n / inner * size * inner + n % inner, end = start + size * inner;
#ifndef BACKWARD
  T peak = -INFINITY;
  for (ulong i = start; i < end; i += inner) {
    const T x = X(i);
    peak = GREATER(x, peak);
  }
  T sum = 0;
  for (ulong i = start; i < end; i += inner) sum += exp(X(i) - peak);
  const T factor = FACTOR(sum);
  for (ulong i = start; i < end; i += inner) RESULT(i, FORWARD(X(i), peak, factor));
#else
  T sum = 0;
  for (ulong i = start; i < end; i += inner) sum += TERM(G(i), X(i));
  for (ulong i = start; i < end; i += inner) RESULT(i, GRADIENT(G(i), X(i), sum));
#endif
}
