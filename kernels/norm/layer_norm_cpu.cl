// Layer normalisation of rows, in the CPU family: a task takes `per_task` rows. Grid: tasks.
//   COLUMN_SUMS: the gradient also writes sums over each task's rows, [2][tasks][size], of g and of
//     g * (x - mean) * rstd
//   IN, COMPUTE; STAT: type of mean and rstd; GAMMA, BETA: types of the parameters, if they exist
//   RMS: the mean counts as 0, and is no argument
#include "row_moments.clh"
#include "row_mean.clh"

#define AT(dt, p, i) CONVERT(T, LOADV(dt, p, i))
#define ONE(dt, p, i) CAT(convert_, T)(LOAD(dt, p, i))
#ifdef GAMMA
#define GAMMA_ARGUMENT CTENSOR(gamma),
#define TIMES_GAMMA(value, i) ((value) * AT(GAMMA, CPTR(MEM(GAMMA), gamma), i))
#define TIMES_GAMMA1(value, i) ((value) * ONE(GAMMA, CPTR(MEM(GAMMA), gamma), i))
#else
#define GAMMA_ARGUMENT
#define TIMES_GAMMA(value, i) (value)
#define TIMES_GAMMA1(value, i) (value)
#endif
#ifdef BETA
#define BETA_ARGUMENT CTENSOR(beta),
#define PLUS_BETA(value, i) ((value) + AT(BETA, CPTR(MEM(BETA), beta), i))
#define PLUS_BETA1(value, i) ((value) + ONE(BETA, CPTR(MEM(BETA), beta), i))
#else
#define BETA_ARGUMENT
#define PLUS_BETA(value, i) (value)
#define PLUS_BETA1(value, i) (value)
#endif

#ifndef BACKWARD

TASK __kernel void layer_norm(CTENSOR(in), GAMMA_ARGUMENT BETA_ARGUMENT TENSOR(out),
                              MEAN_ARGUMENT(TENSOR(mean)) TENSOR(rstd), const ulong rows,
                              const ulong size,
                              const T eps, const ulong per_task) {
  const ulong last = min((get_global_id(0) + 1) * per_task, rows);
  for (ulong row = get_global_id(0) * per_task; row < last; ++row) {
    __global const MEM(IN) *x = CPTR(MEM(IN), in) + row * size;
    __global MEM(IN) *y = PTR(MEM(IN), out) + row * size;
#ifdef RMS
    const T m = 0, scale = inverse_norm(row_squares(x, size), (T)size, eps);
#else
    T m, m2;
    row_moments(x, 0, size, &m, &m2);
    const T scale = inverse_deviation(m2, (T)size, eps);
    STORE(STAT, PTR(MEM(STAT), mean), row, m);
#endif
    STORE(STAT, PTR(MEM(STAT), rstd), row, scale);
    ulong i = 0;
    for (; i + WIDTH <= size; i += WIDTH)
      STOREV(IN, y, i, PLUS_BETA(TIMES_GAMMA((AT(IN, x, i) - (V)(m)) * (V)(scale), i), i));
    for (; i < size; ++i)
      STORE(IN, y, i, PLUS_BETA1(TIMES_GAMMA1((ONE(IN, x, i) - m) * scale, i), i));
  }
}

#else

#ifdef COLUMN_SUMS
#define SUMS_ARGUMENT TENSOR(sums),
#else
#define SUMS_ARGUMENT
#endif

// With h = g * gamma and xhat = (x - mean) * rstd: dx = rstd * (h - mean(h) - xhat * mean(h *
// xhat)), with RMS without mean(h).
TASK __kernel void layer_norm_backward(CTENSOR(grad), CTENSOR(in), GAMMA_ARGUMENT
                                       MEAN_ARGUMENT(CTENSOR(mean)) CTENSOR(rstd), TENSOR(out),
                                       SUMS_ARGUMENT const ulong rows, const ulong size,
                                       const ulong per_task) {
#ifdef COLUMN_SUMS
  __global T *g_sums = PTR(T, sums) + get_global_id(0) * size;
  __global T *dot_sums = g_sums + get_global_size(0) * size;
  for (ulong i = 0; i < size; ++i) g_sums[i] = dot_sums[i] = (T)0;
#endif
  const ulong last = min((get_global_id(0) + 1) * per_task, rows);
  for (ulong row = get_global_id(0) * per_task; row < last; ++row) {
    __global const MEM(IN) *g = CPTR(MEM(IN), grad) + row * size;
    __global const MEM(IN) *x = CPTR(MEM(IN), in) + row * size;
    __global MEM(IN) *d = PTR(MEM(IN), out) + row * size;
    const T m = MEAN_OF_ROW(row);
    const T scale = ONE(STAT, CPTR(MEM(STAT), rstd), row);
    V sum = (V)((T)0), dot = sum;
    ulong i = 0;
    for (; i + WIDTH <= size; i += WIDTH) {
      const V v = AT(IN, g, i), centred = AT(IN, x, i) - (V)(m);
      const V h = TIMES_GAMMA(v, i);
      sum += h;
      dot += h * centred;
#ifdef COLUMN_SUMS
      VSTORE(VLOAD(g_sums, i) + v, g_sums, i);
      VSTORE(VLOAD(dot_sums, i) + v * centred * (V)(scale), dot_sums, i);
#endif
    }
    T sum1 = sum_of_lanes(sum), dot1 = sum_of_lanes(dot);
    for (; i < size; ++i) {
      const T v = ONE(IN, g, i), centred = ONE(IN, x, i) - m;
      const T h = TIMES_GAMMA1(v, i);
      sum1 += h;
      dot1 += h * centred;
#ifdef COLUMN_SUMS
      g_sums[i] += v;
      dot_sums[i] += v * centred * scale;
#endif
    }
    const T shift = MEAN(sum1, size), slope = dot1 * scale * scale / (T)size;
    for (i = 0; i + WIDTH <= size; i += WIDTH) {
      const V h = TIMES_GAMMA(AT(IN, g, i), i);
      STOREV(IN, d, i, (h - (V)(shift) - (AT(IN, x, i) - (V)(m)) * (V)(slope)) * (V)(scale));
    }
    for (; i < size; ++i) {
      const T h = TIMES_GAMMA1(ONE(IN, g, i), i);
      STORE(IN, d, i, (h - shift - (ONE(IN, x, i) - m) * slope) * scale);
    }
  }
}

#endif
