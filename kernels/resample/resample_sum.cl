// Weighted sums of adjacent pixels along height and width in one kernel, on CPU devices, in float:
// out[u][y][x][c] = sum of row_weights[y][i] * column_weights[x][k] *
// in[u][row_starts[y] + i][column_starts[x] + k][c]
//   IN: element type; WIDTH > 1; ROW_TAPS, COLUMN_TAPS: the weights of an output
//   PIXELS: there are channels. Else rows are summed into one row of at most ROOM elements, which
//     is then summed along the width. With HOP the outputs same_from .. same_to - 1 have the same
//     column_weights, and each starts HOP (1 or 2) columns after the one before
// Grid (grid.clh): rows of out, their pixels.
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "grid.clh"
#include "lanes.clh"
#include "weighted_sum.clh"
#include "resample_sum_parameters.clh"

#define SUM_PIXELS_(TYPE, LOAD_, STORE_, c, count, step)                                 \
  {                                                                                      \
    TYPE sum[count];                                                                     \
    FOR_VECTORS(k, count) sum[k] = ZERO_SUM;                                                    \
    for (int i = 0; i < ROW_TAPS; ++i) {                                                 \
      for (int j = 0; j < COLUMN_TAPS; ++j) {                                            \
        const T weight = row_weight[i] * column_weight[j];                               \
        const long n = (i * p.in_w + j) * p.channels + (c);                              \
        FOR_VECTORS(k, count) sum[k] += LOAD_(IN, source, n + k * step) * weight;        \
      }                                                                                  \
    }                                                                                    \
    FOR_VECTORS(k, count) STORE_(IN, target, (c) + k * step, sum[k]);                    \
  }
#define SUM_PIXELS(c, count) SUM_PIXELS_(V, LOADV, STOREV, c, count, WIDTH)

#define SUM_COLUMNS(x)                                                                   \
  {                                                                                      \
    __global const T *column_weight = CPTR(T, column_weights) + (x)*COLUMN_TAPS;         \
    const __local T *source = row + CPTR(int, column_starts)[x];                         \
    T sum = ZERO_SUM;                                                                           \
    for (int j = 0; j < COLUMN_TAPS; ++j) sum += source[j] * column_weight[j];           \
    STORE(IN, results, x, sum);                                                          \
  }

#if HOP == 2
#define LOAD_COLUMNS(source) \
  TWO_APART(VLOAD_LOCAL(float, source, 0), VLOAD_LOCAL(float, source, WIDTH - 1))
#else
#define LOAD_COLUMNS(source) VLOAD_LOCAL(float, source, 0)
#endif

// Computes a row of `out`, skipping elements with zero weights.
static void sum_again(__global const MEM(IN) * rows, __global MEM(IN) * results,
                      __global const T *row_weight, __global const int *column_starts,
                      __global const T *column_weights, const Planes p) {
  FOR_INNER(x, (ulong)p.out_w) {
    for (long c = 0; c < p.channels; ++c) {
      T sum = ZERO_SUM;
      for (int j = 0; j < COLUMN_TAPS; ++j) {
        const T weight = column_weights[x * COLUMN_TAPS + j];
        T column = ZERO_SUM;
        for (int i = 0; i < ROW_TAPS; ++i) {
          const long n = (i * p.in_w + column_starts[x] + j) * p.channels + c;
          ADD_WEIGHTED(column, LOAD(IN, rows, n), row_weight[i])
        }
        ADD_WEIGHTED(sum, column, weight)
      }
      STORE(IN, results, (long)x * p.channels + c, sum);
    }
  }
}

#define OUTPUT_ROW(u)                                                                    \
  const long y = (long)u % p.out_h;                                                      \
  __global const T *row_weight = CPTR(T, row_weights) + y * ROW_TAPS;                    \
  __global const MEM(IN) *rows =                                                         \
      CPTR(MEM(IN), in) +                                                                \
      ((long)u / p.out_h * p.in_h + CPTR(int, row_starts)[y]) * p.in_w * p.channels;     \
  __global MEM(IN) *results = PTR(MEM(IN), out) + (long)u * p.out_w * p.channels;

TASK __kernel void resample_sum(CTENSOR(in), TENSOR(out), CTENSOR(row_starts),
                                CTENSOR(row_weights), CTENSOR(column_starts),
                                CTENSOR(column_weights), const Planes p, const long same_from,
                                const long same_to, const ulong per_item) {
#ifndef PIXELS
  __local T row[ROOM];
#endif
  LARGEST
  FOR_UNITS(u, (ulong)(p.outer * p.out_h), per_item) {
    OUTPUT_ROW(u)
#ifdef PIXELS
    FOR_INNER(x, (ulong)p.out_w) {
      __global const T *column_weight = CPTR(T, column_weights) + x * COLUMN_TAPS;
      __global const MEM(IN) *source = rows + CPTR(int, column_starts)[x] * p.channels;
      __global MEM(IN) *target = results + (long)x * p.channels;
      if (p.channels < WIDTH)
        for (long c = 0; c < p.channels; ++c) SUM_PIXELS_(T, LOAD, STORE, c, 1, 1)
      else FOR_CHANNELS(SUM_PIXELS, 0, p.channels)
    }
#else
    const long vectors = p.in_w < WIDTH ? 0 : p.in_w;
    for (long next = 0; next < vectors; next += WIDTH) {
      const long w = min(next, p.in_w - WIDTH);
      V sum = ZERO_SUM;
      for (int i = 0; i < ROW_TAPS; ++i) sum += LOADV(IN, rows, i * p.in_w + w) * row_weight[i];
      VSTORE_LOCAL(float, sum, row, w);
    }
    for (long w = vectors; w < p.in_w; ++w) {
      row[w] = 0;
      for (int i = 0; i < ROW_TAPS; ++i) row[w] += LOAD(IN, rows, i * p.in_w + w) * row_weight[i];
    }
    long x = INNER_FIRST((ulong)p.out_w);
    const long last = INNER_LAST((ulong)p.out_w);
#ifdef HOP
    const long from = max(x, same_from), to = min(last, same_to);
    if (to - from >= WIDTH) {
      __global const T *column_weight = CPTR(T, column_weights) + same_from * COLUMN_TAPS;
      for (; x < from; ++x) SUM_COLUMNS(x)
      for (; x < to; x += WIDTH) {
        const long at = min(x, to - WIDTH);
        const __local T *source = row + CPTR(int, column_starts)[at];
        V sum = ZERO_SUM;
        for (int j = 0; j < COLUMN_TAPS; ++j) sum += LOAD_COLUMNS(source + j) * column_weight[j];
        STOREV(IN, results, at, sum);
      }
      x = to;
    }
#endif
    for (; x < last; ++x) SUM_COLUMNS(x)
#endif
    // Reads the results back to check them, because a check between the sums would cost more.
    const long end = (long)INNER_LAST((ulong)p.out_w) * p.channels;
    long n = (long)INNER_FIRST((ulong)p.out_w) * p.channels;
    for (; n + WIDTH <= end; n += WIDTH) SEEV(LOADV(IN, results, n))
    for (; n < end; ++n) SEE(LOAD(IN, results, n))
  }
  if (NOT_FINITE) {
    FOR_UNITS(u, (ulong)(p.outer * p.out_h), per_item) {
      OUTPUT_ROW(u)
      sum_again(rows, results, row_weight, CPTR(int, column_starts), CPTR(T, column_weights), p);
    }
  }
}
