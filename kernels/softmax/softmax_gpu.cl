// Softmax and log-softmax of the GPU family, over `size` elements that are `inner` apart. Defines
// as in softmax_cpu.cl; GROUP: the work-group size.
//   softmax_group (inner == 1): a work-group per row. Grid: rows * GROUP.
//   softmax_item: a work-item per column (or short row). Grid: rows * inner, rounded up to GROUP.
// Both may work in place.
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "group.clh"

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

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void softmax_group(
    PARAMS, const ulong rows, const ulong size, const ulong inner) {
  __local T partial[GROUP];
  const uint item = get_local_id(0);
  const ulong start = group_id(0) * size, end = start + size;
#ifndef BACKWARD
  T peak = -INFINITY;
  for (ulong i = start + item; i < end; i += GROUP) {
    const T x = X(i);
    peak = GREATER(x, peak);
  }
  GROUP_REDUCE(peak, GREATER)
  T sum = 0;
  for (ulong i = start + item; i < end; i += GROUP) sum += exp(X(i) - peak);
  GROUP_REDUCE(sum, ADD)
  const T factor = FACTOR(sum);
  for (ulong i = start + item; i < end; i += GROUP) RESULT(i, FORWARD(X(i), peak, factor));
#else
  T sum = 0;
  for (ulong i = start + item; i < end; i += GROUP) sum += TERM(G(i), X(i));
  GROUP_REDUCE(sum, ADD)
  for (ulong i = start + item; i < end; i += GROUP) RESULT(i, GRADIENT(G(i), X(i), sum));
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
