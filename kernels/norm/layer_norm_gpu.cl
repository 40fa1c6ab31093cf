// Layer normalisation of rows, in the GPU family: a work-group per row. Defines as in
// layer_norm_cpu.cl. Grid: rows * GROUP.
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "group.clh"

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
#define FOR_ROW for (ulong i = item, at = row * size + item; i < size; i += GROUP, at += GROUP)

#ifndef BACKWARD

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void layer_norm(
    CTENSOR(in), GAMMA_ARGUMENT BETA_ARGUMENT TENSOR(out), TENSOR(mean), TENSOR(rstd),
    const ulong rows, const ulong size, const T eps) {
  __local T partial[GROUP];
  const uint item = get_local_id(0);
  const ulong row = group_id(0);
  T m = 0;
  FOR_ROW m += AT(IN, in, at);
  GROUP_REDUCE(m, ADD)
  m /= (T)size;
  T m2 = 0;
  FOR_ROW {
    const T d = AT(IN, in, at) - m;
    m2 += d * d;
  }
  GROUP_REDUCE(m2, ADD)
  const T scale = (T)1 / sqrt(m2 / (T)size + eps);
  if (item == 0) {
    STORE(STAT, PTR(MEM(STAT), mean), row, m);
    STORE(STAT, PTR(MEM(STAT), rstd), row, scale);
  }
  FOR_ROW STORE(IN, PTR(MEM(IN), out), at,
                PLUS_BETA(TIMES_GAMMA((AT(IN, in, at) - m) * scale, i), i));
}

#else

// With h = g * gamma and xhat = (x - mean) * rstd: dx = rstd * (h - mean(h) - xhat * mean(h *
// xhat))
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void layer_norm_backward(
    CTENSOR(grad), CTENSOR(in), GAMMA_ARGUMENT CTENSOR(mean), CTENSOR(rstd), TENSOR(out),
    const ulong rows, const ulong size) {
  __local T partial[GROUP];
  const uint item = get_local_id(0);
  const ulong row = group_id(0);
  const T m = AT(STAT, mean, row), scale = AT(STAT, rstd, row);
  T sum = 0, dot = 0;
  FOR_ROW {
    const T h = TIMES_GAMMA(AT(IN, grad, at), i);
    sum += h;
    dot += h * (AT(IN, in, at) - m);
  }
  GROUP_REDUCE(sum, ADD)
  GROUP_REDUCE(dot, ADD)
  const T shift = sum / (T)size, slope = dot * scale * scale / (T)size;
  FOR_ROW {
    const T h = TIMES_GAMMA(AT(IN, grad, at), i);
    STORE(IN, PTR(MEM(IN), out), at, (h - shift - (AT(IN, in, at) - m) * slope) * scale);
  }
}

#endif
