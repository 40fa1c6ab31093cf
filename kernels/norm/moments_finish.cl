// Joins the parts of moments (moments.clh) and computes a result with the argument `number`. A part
// has `share` elements, the last one the remainder of `size`. Both families; a work-item per
// output. With GROUP it is a work-group, which shares the elements that VARIANCE may read again.
//   VARIANCE     out = m2 / max(0, count - number), or with ROOT its square root; WITH_MEAN: writes
//                the mean, too. The elements of `in` have type IN and are `inner` apart
//   otherwise    mean, and out = 1 / sqrt(m2 / count + number), for normalisations; with
//     NAN_IF_INFINITE  out is NaN where m2 is infinite
//     RUNNING    running_mean and running_var move by `momentum` towards mean and unbiased variance
//     PARAM      the type of mean and out
#include "moments.clh"
#include "grid.clh"

#ifdef VARIANCE
#ifdef COMPUTE_IS_DOUBLE
#define LEAST_M2 1e-290
#define LEAST_MEAN 1e-130
#else
#define LEAST_M2 1e-30f
#define LEAST_MEAN 1e-11f
#endif

// Whether sums or squares left the range of the type, by overflow or underflow.
static inline bool out_of_range(const T mean, const T m2) {
  if (!isfinite(mean) || !isfinite(m2)) return true;
  return m2 < LEAST_M2 && (m2 > 0 || (mean != 0 && fabs(mean) < LEAST_MEAN));
}

#ifdef GROUP
#include "group.clh"
#define FOR_SHARE(i, from, to) for (ulong i = (from) + item; i < (to); i += GROUP)
#define JOIN_ITEMS(value, JOIN) GROUP_REDUCE(value, JOIN)
#define SCRATCH_ARGUMENT , __local T *partial, const uint item
#define SCRATCH , partial, item
#else
#define FOR_SHARE(i, from, to) for (ulong i = from; i < (to); ++i)
#define JOIN_ITEMS(value, JOIN)
#define SCRATCH_ARGUMENT
#define SCRATCH
#endif
#define ELEMENT(i) CAT(convert_, T)(LOAD(IN, x, (i) * stride))
#define SCALED(i) ldexp(ELEMENT(i), -exponent)

ALWAYS_INLINE bool all_finite(__global const MEM(IN) *x, const ulong from, const ulong to,
                              const ulong stride SCRATCH_ARGUMENT) {
  uint wrong = 0;
  FOR_SHARE(i, from, to) {
    wrong = !isfinite(ELEMENT(i));
    if (wrong) break;
  }
  JOIN_ITEMS(wrong, GREATER)
  return wrong == 0;
}

// Computes the moments of the elements divided by 2^result. The elements are finite, and the result
// is chosen so that all numbers stay in range.
ALWAYS_INLINE int scaled_moments(__global const MEM(IN) *x, const ulong size, const ulong stride,
                                 T *mean, T *m2 SCRATCH_ARGUMENT) {
  T most = 0;
  FOR_SHARE(i, 0, size) most = fmax(most, fabs(ELEMENT(i)));
  JOIN_ITEMS(most, fmax)
  int exponent;
  frexp(most, &exponent);
  T rough = 0, sum = 0, squares = 0;
  ulong count = 0;
  FOR_SHARE(i, 0, size) {
    ++count;
    rough += (SCALED(i) - rough) / (T)count;
  }
  rough *= (T)count / (T)size;
  JOIN_ITEMS(rough, ADD)
  FOR_SHARE(i, 0, size) {
    const T d = SCALED(i) - rough;
    sum += d;
    squares += d * d;
  }
  JOIN_ITEMS(sum, ADD)
  JOIN_ITEMS(squares, ADD)
  *m2 = squares - sum * (sum / (T)size);
  *mean = rough + sum / (T)size;
  return exponent;
}
#endif

#ifdef GROUP
#define OUTPUTS_OF_ITEM __kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
#define FOR_OUTPUTS(n) const ulong n = group_id(0);
#else
#define OUTPUTS_OF_ITEM GRID __kernel
#define FOR_OUTPUTS(n) FOR_UNITS(n, outputs, per_item)
#endif

OUTPUTS_OF_ITEM void moments_finish(CTENSOR(work), TENSOR(mean), TENSOR(out),
#ifdef VARIANCE
                                  CTENSOR(in), const ulong inner,
#endif
#ifdef RUNNING
                                  TENSOR(running_mean), TENSOR(running_var), const T momentum,
#endif
                                  const T number, const ulong outputs, const ulong parts,
                                  const ulong share, const ulong size, const ulong per_item) {
#ifdef GROUP
  __local T partial[GROUP];
  const uint item = get_local_id(0);
#endif
  FOR_OUTPUTS(n) {
    __global const T *part_mean = CPTR(T, work) + n, *part_m2 = part_mean + parts * outputs;
    T count = (T)min(share, size), mean = part_mean[0], m2 = part_m2[0];
    for (ulong p = 1; p < parts; ++p) {
      const T more = (T)min(share, size - p * share);
      JOIN_MOMENTS(T, count, mean, m2, more, part_mean[p * outputs], part_m2[p * outputs])
    }
#ifdef VARIANCE
    int exponent = 0;
    if (out_of_range(mean, m2)) {
      __global const MEM(IN) *x = CPTR(MEM(IN), in) + n / inner * size * inner + n % inner;
      // Looks for infinities and NaN, but only in parts that may have them, because a row may be
      // long.
      bool finite = true;
      for (ulong p = 0; p < parts && finite; ++p) {
        if (isfinite(part_mean[p * outputs]) && isfinite(part_m2[p * outputs])) continue;
        finite = all_finite(x, p * share, min((p + 1) * share, size), inner SCRATCH);
      }
      if (finite) {
        exponent = scaled_moments(x, size, inner, &mean, &m2 SCRATCH);
        mean = ldexp(mean, exponent);
      }
    }
#ifdef GROUP
    if (item > 0) return;
#endif
    const T variance = m2 / fmax((T)size - number, (T)0);
#if !defined(ROOT)
    STORE(PARAM, PTR(MEM(PARAM), out), n, ldexp(variance, 2 * exponent));
#elif defined(COMPUTE_IS_DOUBLE)
    STORE(PARAM, PTR(MEM(PARAM), out), n, sqrt(ldexp(variance, 2 * exponent)));  // as on CPU
#else
    STORE(PARAM, PTR(MEM(PARAM), out), n, ldexp(sqrt(variance), exponent));
#endif
#ifdef WITH_MEAN
    STORE(PARAM, PTR(MEM(PARAM), mean), n, mean);
#endif
#else
    STORE(PARAM, PTR(MEM(PARAM), mean), n, mean);
#ifdef NAN_IF_INFINITE
    STORE(PARAM, PTR(MEM(PARAM), out), n, inverse_deviation(m2, count, number));
#else
    STORE(PARAM, PTR(MEM(PARAM), out), n, (T)1 / sqrt(m2 / count + number));
#endif
#ifdef RUNNING
#define MOVE(x, value)                                                                        \
  STORE(RUNNING, PTR(MEM(RUNNING), x), n,                                                     \
        (1 - momentum) * CAT(convert_, T)(LOAD(RUNNING, PTR(MEM(RUNNING), x), n)) +           \
            momentum * (value))
    MOVE(running_mean, mean);
    MOVE(running_var, m2 / (count - 1));
#endif
#endif
  }
}
