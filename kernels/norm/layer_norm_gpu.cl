// Layer normalisation of rows, in the GPU family (row_items.clh). Defines as in layer_norm_cpu.cl;
// COLUMN_SUMS needs KEEP.
// Grid: rows << row_shift, rounded up to GROUP. With COLUMN_SUMS a group takes rows `rounds` times.
#include "moments.clh"
#include "row_items.clh"
#include "row_mean.clh"

#define AT(dt, p, i) CAT(convert_, T)(LOAD(dt, CPTR(MEM(dt), p), i))
#ifdef GAMMA
#define TIMES_GAMMA(value, i) ((value) * AT(GAMMA, gamma, i))
#define GAMMA_ARGUMENT CTENSOR(gamma),
#else
#define TIMES_GAMMA(value, i) (value)
#define GAMMA_ARGUMENT
#endif
#ifdef BETA
#define PLUS_BETA(value, i) ((value) + AT(BETA, beta, i))
#define BETA_ARGUMENT CTENSOR(beta),
#else
#define PLUS_BETA(value, i) (value)
#define BETA_ARGUMENT
#endif
#define X_AT(i) AT(IN, in, row * size + (i))
#define X(k, i) ROW_VALUE(x, X_AT, k, i)

#ifndef BACKWARD

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void layer_norm(
    CTENSOR(in), GAMMA_ARGUMENT BETA_ARGUMENT TENSOR(out), MEAN_ARGUMENT(TENSOR(mean))
    TENSOR(rstd), const ulong rows, const ulong size, const T eps, const uint row_shift) {
  __local T partial[GROUP];
  ROW_OF_ITEM(rows, row_shift)
  KEPT_ROW(x, X_AT)
  T m = 0;
#ifndef RMS
#define ADD_TO_MEAN(x, i) m += x;
  ROW_EACH(x, X_AT, ADD_TO_MEAN)
  ROW_REDUCE(m, ADD)
  m /= (T)size;
#endif
  T m2 = 0;
#define ADD_SQUARE(x, i) m2 += ((x) - m) * ((x) - m);
  ROW_EACH(x, X_AT, ADD_SQUARE)
  ROW_REDUCE(m2, ADD)
#ifdef RMS
  const T scale = inverse_norm(m2, (T)size, eps);
#else
  const T scale = inverse_deviation(m2, (T)size, eps);
#endif
  if (!is_row) return;
  if (in_row == 0) {
#ifndef RMS
    STORE(STAT, PTR(MEM(STAT), mean), row, m);
#endif
    STORE(STAT, PTR(MEM(STAT), rstd), row, scale);
  }
#define RESULT(x, i) PLUS_BETA(TIMES_GAMMA(((x) - m) * scale, i), i)
#ifdef KEEP
  FOR_KEPT(k) x[k] = RESULT(x[k], SAFE_AT(k));
#undef RESULT
#define RESULT(x, i) (x)
#endif
#define WRITE(x, i) STORE(IN, PTR(MEM(IN), out), row * size + (i), RESULT(x, i));
  ROW_EACH(x, X_AT, WRITE)
}

#else

#define G_AT(i) AT(IN, grad, row * size + (i))
#define H_AT(i) TIMES_GAMMA(G_AT(i), i)
#define H(k, i) ROW_VALUE(h, H_AT, k, i)

// With h = g * gamma and xhat = (x - mean) * rstd: dx = rstd * (h - mean(h) - xhat * mean(h *
// xhat)), with RMS without mean(h).
#define GRADIENT_OF_ROW                                                       \
  T sum = 0, dot = 0;                                                         \
  FOR_ROW(k, i) {                                                             \
    const T value = H(k, i);                                                  \
    sum += value;                                                             \
    dot += value * (X(k, i) - m);                                             \
  }                                                                           \
  ROW_REDUCE(sum, ADD)                                                        \
  ROW_REDUCE(dot, ADD)                                                        \
  const T shift = MEAN(sum, size), slope = dot * scale * scale / (T)size;       \
  if (is_row) {                                                               \
    FOR_ROW(k, i) {                                                           \
      const T value = (H(k, i) - shift - (X(k, i) - m) * slope) * scale;      \
      STORE(IN, PTR(MEM(IN), out), row * size + i, value);                    \
    }                                                                         \
  }

#ifdef COLUMN_SUMS

// Also sums over the rows of a group, for each column: work[0] of g, work[1] of g * xhat.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void layer_norm_backward(
    CTENSOR(grad), CTENSOR(in), GAMMA_ARGUMENT MEAN_ARGUMENT(CTENSOR(mean)) CTENSOR(rstd),
    TENSOR(out), TENSOR(work), const ulong rows, const ulong size, const ulong rounds,
    const ulong groups, const uint row_shift) {
  __local T partial[GROUP];
  T of_beta[KEEP], of_gamma[KEEP];
  FOR_KEPT(k) of_beta[k] = of_gamma[k] = 0;
  for (ulong round = 0; round < rounds; ++round) {
    ROW_OF_ROUND(rows, row_shift, group_id(0) * rounds + round)
    const T m = MEAN_OF_ROW(row), scale = AT(STAT, rstd, row);
    KEPT_ROW(x, X_AT)
    KEPT_ROW(g, G_AT)
    T h[KEEP];
    FOR_KEPT(k) h[k] = TIMES_GAMMA(g[k], SAFE_AT(k));
    GRADIENT_OF_ROW
    if (is_row) {
      FOR_KEPT(k) {
        of_beta[k] += g[k];
        of_gamma[k] += g[k] * ((x[k] - m) * scale);
      }
    }
  }
  // The rows that a group takes at once have the same columns.
  const uint item = get_local_id(0), row_items = 1u << row_shift, in_row = item & (row_items - 1);
#define JOIN_COLUMNS(sums, which)                                             \
  FOR_KEPT(k) {                                                               \
    partial[item] = sums[k];                                                  \
    barrier(CLK_LOCAL_MEM_FENCE);                                             \
    if (item < row_items && NUMBER_AT(k) < size) {                            \
      T total = 0;                                                            \
      for (uint n = item; n < GROUP; n += row_items) total += partial[n];     \
      PTR(T, work)[((which) * groups + group_id(0)) * size + NUMBER_AT(k)] = total; \
    }                                                                         \
    barrier(CLK_LOCAL_MEM_FENCE);                                             \
  }
  JOIN_COLUMNS(of_beta, 0)
  JOIN_COLUMNS(of_gamma, 1)
}

#else

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void layer_norm_backward(
    CTENSOR(grad), CTENSOR(in), GAMMA_ARGUMENT MEAN_ARGUMENT(CTENSOR(mean)) CTENSOR(rstd),
    TENSOR(out), const ulong rows, const ulong size, const uint row_shift) {
  __local T partial[GROUP];
  ROW_OF_ITEM(rows, row_shift)
  const T m = MEAN_OF_ROW(row), scale = AT(STAT, rstd, row);
  KEPT_ROW(x, X_AT)
  KEPT_ROW(h, H_AT)
  GRADIENT_OF_ROW
}

#endif
#endif
