// Random variates by rejection, both families: element i of a contiguous result is DRAW of x (and
// y), the elements of the inputs, and of the element's own source of uniform numbers. The source
// takes the words of counter `offset + i` with draw numbers from 1 on, which random.cl never
// uses. So a seed gives the same numbers on every device and launch.
//   OUT, COMPUTE; X, Y: types of the inputs (Y is optional); TINY: the least normal number of OUT
// A work-item computes `per_item` elements. Grid: work-items.
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "philox.clh"
#include "log1p_minus.clh"

typedef struct {
  ulong counter, seed;
  uint draw, left;
  Words words;  // words are used from w3 on
} Source;

static inline uint next_word(Source *source) {
  if (source->left == 0) {
    source->words = philox_draw(source->counter, ++source->draw, source->seed);
    source->left = 4;
  }
  const uint next = source->words.w3;
  source->words.w3 = source->words.w2;
  source->words.w2 = source->words.w1;
  source->words.w1 = source->words.w0;
  --source->left;
  return next;
}

// A uniform number in (0, 1).
static inline T fraction(Source *source) {
#ifdef COMPUTE_IS_DOUBLE
  const ulong high = next_word(source);
  return ((T)((high << 32 | next_word(source)) >> 12) + 0.5) * 0x1p-52;
#else
  return ((T)(next_word(source) >> 9) + 0.5f) * 0x1p-23f;
#endif
}

// An exponential variate of rate 1. Near 0 it comes from the distance of the uniform number to 1,
// so it has more digits.
static inline T exponential(Source *source) {
#ifdef COMPUTE_IS_DOUBLE
  const ulong high = next_word(source), word = high << 32 | next_word(source);
  const T scale = 0x1p-64;
#else
  const uint word = next_word(source);
  const T scale = 0x1p-32f;
#endif
  const T near_0 = ((T)word + L(0.5)) * scale, near_1 = ((T)~word + L(0.5)) * scale;
  return near_0 < L(0.5) ? -log(near_0) : -log1p(-near_1);
}

static inline T normal(Source *source) {
  const T radius = sqrt(L(-2.0) * log(fraction(source)));
  return radius * cos(L(6.28318530717958648) * fraction(source));
}

// A gamma variate for alpha >= 1. Marsaglia, Tsang: A simple method for generating gamma variables.
// ACM TOMS 26 (2000).
static inline T large_gamma(const T alpha, Source *source) {
  const T d = alpha - L(1.0) / 3, c = 1 / sqrt(9 * d);
  T v = 0;
  for (int rejected = 1; rejected;) {
    const T x = normal(source), u = fraction(source), root = 1 + c * x, xx = x * x;
    v = root * root * root;
    // False if alpha is NaN, so that the loop ends.
    rejected = root <= 0 || (u >= 1 - L(0.0331) * xx * xx &&
                             log(u) >= xx / 2 + d * (1 - v + log(v)));
  }
  return d * v;
}

static inline T standard_gamma(const T alpha, Source *source) {
  if (alpha == 0) return 0;
  const T scale = alpha < 1 ? exp(-exponential(source) / alpha) : (T)1;
  return fmax(scale * large_gamma(alpha < 1 ? alpha + 1 : alpha, source), (T)TINY);
}

// The logarithm of a gamma variate, for an alpha so small that the variate itself would be 0.
static inline T log_gamma(const T alpha, Source *source) {
  const T log_scale = alpha < 1 ? -exponential(source) / alpha : (T)0;
  return log_scale + log(large_gamma(alpha < 1 ? alpha + 1 : alpha, source));
}

// The error of Stirling's formula: log(k!) - (k + 1/2) log(k + 1) + (k + 1) - log(2 pi) / 2.
static inline T stirling_rest(const T k) {
  if (k < 10) return lgamma(k + 1) - (k + L(0.5)) * log(k + 1) + (k + 1) - L(0.918938533204672742);
  const T square = (k + 1) * (k + 1);
  return (L(1.0) / 12 - (L(1.0) / 360 - L(1.0) / 1260 / square) / square) / (k + 1);
}

// The error of the formula for k >= 10: log(k!) - (k + 1/2) log(k) + k - log(2 pi) / 2.
static inline T stirling_less(const T k) {
  const T square = k * k;
  return (L(1.0) / 12 - (L(1.0) / 360 - L(1.0) / 1260 / square) / square) / k;
}

// The logarithm of the probability of k >= 0, from its deviation: the terms of k log(rate) - rate -
// log(k!) are so large that a float of their difference has no digits left (Loader, Fast and
// accurate computation of binomial probabilities, 2000).
static inline T log_poisson(const T k, const T rate) {
  if (k < 10) return k * log(rate) - rate - lgamma(k + 1);
  const T log_root = log(k) / 2 + L(0.91893853320467274);  // log(2 pi k) / 2
  return k * log1p_minus((rate - k) / k) - log_root - stirling_less(k);
}

// Hoermann: The transformed rejection method for generating Poisson random variables. Insurance:
// Mathematics and Economics 12 (1993), algorithm PTRS.
static inline T poisson(const T rate, Source *source) {
  if (!(rate > 0)) return rate == 0 ? (T)0 : (T)NAN;
  if (rate < 10) {
    T sum = exponential(source), k = 0;
    for (; sum < rate; ++k) sum += exponential(source);
    return k;
  }
  const T root = sqrt(rate);
  const T b = L(0.931) + L(2.53) * root, a = L(-0.059) + L(0.02483) * b;
  const T inverse_alpha = L(1.1239) + L(1.1328) / (b - L(3.4));
  const T v_r = L(0.9277) - L(3.6224) / (b - 2);
  for (;;) {
    const T u = fraction(source) - L(0.5), v = fraction(source), us = L(0.5) - fabs(u);
    const T k = floor((2 * a / us + b) * u + rate + L(0.43));
    if (us >= L(0.07) && v <= v_r) return k;
    if (k < 0 || (us < L(0.013) && v > us)) continue;
    const T accept = log(v) + log(inverse_alpha) - log(a / (us * us) + b);
    if (accept <= log_poisson(k, rate)) return k;
  }
}

// The logarithm of the probability of k in 1 ... n - 1, without terms that do not depend on k; from
// the deviations, as in log_poisson().
static inline T log_binomial(const T k, const T n, const T p) {
  const T rest = n - k, expected = n * p;
  return k * log1p_minus((expected - k) / k) +
         rest * log1p_minus((k - expected) / rest) - log(k) / 2 - log(rest) / 2 - stirling_less(k) -
         stirling_less(rest);
}

// Hoermann: The generation of binomial random variates. Journal of Statistical Computation and
// Simulation 46 (1993), algorithm BTRS; or sums of geometric variates if few successes are
// expected.
static inline T binomial_to_half(const T n, const T p, Source *source) {
  if (n * p < 10) {
    const T log_q = log1p(-p);
    T sum = 0, k = 0;
    for (;; ++k) {
      sum += ceil(exponential(source) / -log_q);
      if (!(sum <= n)) return k;
    }
  }
  const T q = 1 - p, deviation = sqrt(n * p * q), b = L(1.15) + L(2.53) * deviation;
  const T a = L(-0.0873) + L(0.0248) * b + L(0.01) * p, c = n * p + L(0.5);
  const T v_r = L(0.92) - L(4.2) / b, alpha = (L(2.83) + L(5.1) / b) * deviation;
  const T ratio = p / q, m = floor((n + 1) * p);
  const bool many = m > 1000;
  const T mode = many ? log_binomial(m, n, p) : 0;
  for (;;) {
    const T u = fraction(source) - L(0.5), v = fraction(source), us = L(0.5) - fabs(u);
    const T k = floor((2 * a / us + b) * u + c);
    if (us >= L(0.07) && v <= v_r) return k;
    if (k < 0 || k > n) continue;
    const T height = log(v * alpha / (a / (us * us) + b));
    if (many && k >= 10 && n - k >= 10) {
      if (height <= log_binomial(k, n, p) - mode) return k;
      continue;
    }
    const T bound = (m + L(0.5)) * log((m + 1) / (ratio * (n - m + 1))) +
                    (n + 1) * log1p((k - m) / (n - k + 1)) +
                    (k + L(0.5)) * log(ratio * (n - k + 1) / (k + 1)) + stirling_rest(m) +
                    stirling_rest(n - m) - stirling_rest(k) - stirling_rest(n - k);
    if (height <= bound) return k;
  }
}

static inline T binomial(const T n, const T p, Source *source) {
  if (isnan(n) || isnan(p)) return NAN;
  if (n <= 0 || p <= 0) return 0;
  if (p >= 1) return n;
  return p <= L(0.5) ? binomial_to_half(n, p, source) : n - binomial_to_half(n, 1 - p, source);
}

#ifdef Y
#define SECOND CTENSOR(ys),
#define LOAD_SECOND const T y = (T)LOAD(Y, CPTR(MEM(Y), ys), i);
#else
#define SECOND
#define LOAD_SECOND
#endif

__kernel void random_variate(TENSOR(out), CTENSOR(xs), SECOND const ulong seed, const ulong offset,
                             const ulong count, const ulong per_item) {
  const ulong last = min((get_global_id(0) + 1) * per_item, count);
  for (ulong i = get_global_id(0) * per_item; i < last; ++i) {
    Source source = {offset + i, seed, 0, 0, {0, 0, 0, 0}};
    const T x = (T)LOAD(X, CPTR(MEM(X), xs), i);
    LOAD_SECOND
    STORE(OUT, PTR(MEM(OUT), out), i, DRAW);
  }
}
