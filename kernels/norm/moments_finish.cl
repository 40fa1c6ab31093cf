// Joins the parts of moments (moments.clh) and computes a result with the argument `number`. A part
// has `share` elements, the last one the remainder of `size`. Both families; a work-item per
// output.
//   VARIANCE     out = m2 / max(0, count - number), or with ROOT its square root; WITH_MEAN: writes
//                the mean, too. The elements of `in` have type IN and are `inner` apart
//   otherwise    mean, and out = 1 / sqrt(m2 / count + number), for normalisations; with
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

static inline bool all_finite(__global const MEM(IN) *x, const ulong from, const ulong to,
                              const ulong stride) {
  for (ulong i = from; i < to; ++i) {
    if (!isfinite(CAT(convert_, T)(LOAD(IN, x, i * stride)))) return false;
  }
  return true;
}

// Computes the moments of the elements, which are finite, divided by 2^result. That is chosen so
// that all stay in range.
static inline int scaled_moments(__global const MEM(IN) *x, const ulong size, const ulong stride,
                                 T *mean, T *m2) {
  T most = 0;
  for (ulong i = 0; i < size; ++i) {
    most = fmax(most, fabs(CAT(convert_, T)(LOAD(IN, x, i * stride))));
  }
  int exponent;
  frexp(most, &exponent);
#define SCALED(i) ldexp(CAT(convert_, T)(LOAD(IN, x, (i) * stride)), -exponent)
  T sum = 0, squares = 0;
  *mean = 0;
  for (ulong i = 0; i < size; ++i) *mean += (SCALED(i) - *mean) / (T)(i + 1);
  for (ulong i = 0; i < size; ++i) {
    const T d = SCALED(i) - *mean;
    sum += d;
    squares += d * d;
  }
  *m2 = squares - sum * (sum / (T)size);
  *mean += sum / (T)size;
  return exponent;
}
#endif

GRID __kernel void moments_finish(CTENSOR(work), TENSOR(mean), TENSOR(out),
#ifdef VARIANCE
                                  CTENSOR(in), const ulong inner,
#endif
#ifdef RUNNING
                                  TENSOR(running_mean), TENSOR(running_var), const T momentum,
#endif
                                  const T number, const ulong outputs, const ulong parts,
                                  const ulong share, const ulong size, const ulong per_item) {
  FOR_UNITS(n, outputs, per_item) {
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
      // A single work-item reads the row. It looks for infinities and NaN only in parts that may
      // have some, because these are frequent, and a row may be long.
      bool finite = true;
      for (ulong p = 0; p < parts && finite; ++p) {
        if (isfinite(part_mean[p * outputs]) && isfinite(part_m2[p * outputs])) continue;
        finite = all_finite(x, p * share, min((p + 1) * share, size), inner);
      }
      if (finite) {
        exponent = scaled_moments(x, size, inner, &mean, &m2);
        mean = ldexp(mean, exponent);
      }
    }
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
    STORE(PARAM, PTR(MEM(PARAM), out), n, (T)1 / sqrt(m2 / count + number));
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
