// Layer normalisation of rows, in the GPU family (row_items.clh). Defines as in layer_norm_cpu.cl.
// Grid: rows << row_shift, rounded up to GROUP.
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "row_items.clh"

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
    CTENSOR(in), GAMMA_ARGUMENT BETA_ARGUMENT TENSOR(out), TENSOR(mean), TENSOR(rstd),
    const ulong rows, const ulong size, const T eps, const uint row_shift) {
  __local T partial[GROUP];
  ROW_OF_ITEM(rows, row_shift)
  KEPT_ROW(x, X_AT)
  T m = 0;
#define ADD_TO_MEAN(x, i) m += x;
  ROW_EACH(x, X_AT, ADD_TO_MEAN)
  ROW_REDUCE(m, ADD)
  m /= (T)size;
  T m2 = 0;
#define ADD_SQUARE(x, i) m2 += ((x) - m) * ((x) - m);
  ROW_EACH(x, X_AT, ADD_SQUARE)
  ROW_REDUCE(m2, ADD)
  const T scale = (T)1 / sqrt(m2 / (T)size + eps);
  if (!is_row) return;
  if (in_row == 0) {
    STORE(STAT, PTR(MEM(STAT), mean), row, m);
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

#define H_AT(i) TIMES_GAMMA(AT(IN, grad, row * size + (i)), i)
#define H(k, i) ROW_VALUE(h, H_AT, k, i)

// With h = g * gamma and xhat = (x - mean) * rstd: dx = rstd * (h - mean(h) - xhat * mean(h *
// xhat))
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void layer_norm_backward(
    CTENSOR(grad), CTENSOR(in), GAMMA_ARGUMENT CTENSOR(mean), CTENSOR(rstd), TENSOR(out),
    const ulong rows, const ulong size, const uint row_shift) {
  __local T partial[GROUP];
  ROW_OF_ITEM(rows, row_shift)
  const T m = AT(STAT, mean, row), scale = AT(STAT, rstd, row);
  KEPT_ROW(x, X_AT)
  KEPT_ROW(h, H_AT)
  T sum = 0, dot = 0;
  FOR_ROW(k, i) {
    const T value = H(k, i);
    sum += value;
    dot += value * (X(k, i) - m);
  }
  ROW_REDUCE(sum, ADD)
  ROW_REDUCE(dot, ADD)
  const T shift = sum / (T)size, slope = dot * scale * scale / (T)size;
  if (!is_row) return;
  FOR_ROW(k, i) {
    const T value = (H(k, i) - shift - (X(k, i) - m) * slope) * scale;
    STORE(IN, PTR(MEM(IN), out), row * size + i, value);
  }
}

#endif
