// Softmax and log-softmax of the CPU family, over `size` elements that are `inner` apart.
//   IN, OUT, COMPUTE; forward: LOG selects log-softmax; STORED: OUT has the compute type's
//   precision, so the output holds the exponentials until their sum is known
//   BACKWARD: IN is the type of `y`, the forward's result, and of its gradient `g`
// softmax_rows (inner == 1): a task computes `per_task` of the rows.
// softmax_columns: a task computes `per_task` blocks of WIDTH adjacent columns.
// Both may work in place. Grid: tasks.
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "lanes.clh"

#define AT(dt, p, i) CONVERT(T, LOADV(dt, p, i))
#define ROWS(dt) __global MEM(dt) *
#define CROWS(dt) __global const MEM(dt) *

// The columns of a block; `count` of the WIDTH lanes exist.
#define BLOCK(n)                                                    \
  const ulong blocks = DIVIDE_UP(inner, WIDTH);                     \
  const ulong column = (n) % blocks * WIDTH;                        \
  const ulong start = (n) / blocks * size * inner + column;         \
  const int count = (int)min((ulong)WIDTH, inner - column);
// A task's blocks of columns.
#define FOR_BLOCKS(n)                                                                        \
  const ulong last = min((get_global_id(0) + 1) * per_task, rows * DIVIDE_UP(inner, WIDTH)); \
  for (ulong n = get_global_id(0) * per_task; n < last; ++n)
// The end of a task's rows; the elements of a row in vectors, and those after them.
#define FIND_ROWS                                                  \
  const ulong last = min((get_global_id(0) + 1) * per_task, rows); \
  const ulong whole = size / WIDTH * WIDTH;                        \
  const int rest = (int)(size - whole);
#define TAKE(dt, value, p, i)                                \
  V value;                                                   \
  if (count == WIDTH) value = AT(dt, p, i);                  \
  else LOAD_SOME(dt, value, p, i, count, 0)
#define GIVE(dt, p, i, value)                                \
  if (count == WIDTH) STOREV(dt, p, i, value);               \
  else STORE_SOME(dt, p, i, count, value)

#ifndef BACKWARD

// The result for v, from the greatest element of the row and the sum of exponentials.
#ifdef LOG
#define FACTOR(sum) log(sum)
#define RESULT(x, peak, factor) ((x) - (peak) - (factor))
#else
#define FACTOR(sum) ((T)1 / (sum))
#define RESULT(x, peak, factor) (exp((x) - (peak)) * (factor))
#endif

TASK __kernel void softmax_rows(CTENSOR(in), TENSOR(out), const ulong rows, const ulong size,
                                const ulong inner, const ulong per_task) {
  FIND_ROWS
  for (ulong row = get_global_id(0) * per_task; row < last; ++row) {
    CROWS(IN) x = CPTR(MEM(IN), in) + row * size;
    ROWS(OUT) y = PTR(MEM(OUT), out) + row * size;
    V tail = (V)((T)-INFINITY);
    if (rest) LOAD_SOME(IN, tail, x, whole, rest, -INFINITY)
    V top = tail;
    for (ulong i = 0; i < whole; i += WIDTH) {
      const V v = AT(IN, x, i);
      top = v > top ? v : top;  // ignores NaN, but the sum gets it
    }
    const V peak = (V)(greatest_lane(top));
    V sum = (V)((T)0);
    if (rest) sum = exp(tail - peak);
    for (ulong i = 0; i < whole; i += WIDTH) {
      const V e = exp(AT(IN, x, i) - peak);
#if defined(STORED) && !defined(LOG)
      STOREV(OUT, y, i, e);
#endif
      sum += e;
    }
    const T total = sum_of_lanes(sum);
    const V factor = (V)(FACTOR(total));
    for (ulong i = 0; i < whole; i += WIDTH) {
#if defined(STORED) && !defined(LOG)
      STOREV(OUT, y, i, AT(OUT, y, i) * factor);
#else
      STOREV(OUT, y, i, RESULT(AT(IN, x, i), peak, factor));
#endif
    }
    if (rest) STORE_SOME(OUT, y, whole, rest, RESULT(tail, peak, factor))
  }
}

TASK __kernel void softmax_columns(CTENSOR(in), TENSOR(out), const ulong rows, const ulong size,
                                   const ulong inner, const ulong per_task) {
  FOR_BLOCKS(n) {
    BLOCK(n)
    CROWS(IN) x = CPTR(MEM(IN), in) + start;
    ROWS(OUT) y = PTR(MEM(OUT), out) + start;
    V peak = (V)((T)-INFINITY);
    for (ulong i = 0; i < size; ++i) {
      TAKE(IN, v, x, i * inner)
      peak = v > peak ? v : peak;
    }
    V sum = (V)((T)0);
    for (ulong i = 0; i < size; ++i) {
      TAKE(IN, v, x, i * inner)
      sum += exp(v - peak);
    }
    const V factor = FACTOR(sum);
    for (ulong i = 0; i < size; ++i) {
      TAKE(IN, v, x, i * inner)
      GIVE(OUT, y, i * inner, RESULT(v, peak, factor))
    }
  }
}

#else

#ifdef LOG
#define TERM(g, y) (g)
#define GRADIENT(g, y, sum) ((g)-exp(y) * (sum))
#else
#define TERM(g, y) ((g) * (y))
#define GRADIENT(g, y, sum) (((g) - (sum)) * (y))
#endif

TASK __kernel void softmax_rows(CTENSOR(grad), CTENSOR(in), TENSOR(out), const ulong rows,
                                const ulong size, const ulong inner, const ulong per_task) {
  FIND_ROWS
  for (ulong row = get_global_id(0) * per_task; row < last; ++row) {
    CROWS(IN) g = CPTR(MEM(IN), grad) + row * size;
    CROWS(IN) y = CPTR(MEM(IN), in) + row * size;
    ROWS(OUT) d = PTR(MEM(OUT), out) + row * size;
    V sum = (V)((T)0), g_tail = sum, y_tail = sum;
    if (rest) {
      LOAD_SOME(IN, g_tail, g, whole, rest, 0)
      LOAD_SOME(IN, y_tail, y, whole, rest, 0)
      sum = TERM(g_tail, y_tail);
    }
    for (ulong i = 0; i < whole; i += WIDTH) sum += TERM(AT(IN, g, i), AT(IN, y, i));
    const V total = (V)(sum_of_lanes(sum));
    for (ulong i = 0; i < whole; i += WIDTH)
      STOREV(OUT, d, i, GRADIENT(AT(IN, g, i), AT(IN, y, i), total));
    if (rest) STORE_SOME(OUT, d, whole, rest, GRADIENT(g_tail, y_tail, total))
  }
}

TASK __kernel void softmax_columns(CTENSOR(grad), CTENSOR(in), TENSOR(out), const ulong rows,
                                   const ulong size, const ulong inner, const ulong per_task) {
  FOR_BLOCKS(n) {
    BLOCK(n)
    CROWS(IN) g = CPTR(MEM(IN), grad) + start;
    CROWS(IN) y = CPTR(MEM(IN), in) + start;
    ROWS(OUT) d = PTR(MEM(OUT), out) + start;
    V sum = (V)((T)0);
    for (ulong i = 0; i < size; ++i) {
      TAKE(IN, gradient, g, i * inner)
      TAKE(IN, value, y, i * inner)
      sum += TERM(gradient, value);
    }
    for (ulong i = 0; i < size; ++i) {
      TAKE(IN, gradient, g, i * inner)
      TAKE(IN, value, y, i * inner)
      GIVE(OUT, d, i * inner, GRADIENT(gradient, value, sum))
    }
  }
}

#endif
