// Random numbers, both families: element i of a contiguous result is EXPR of a random word w, or of
// a normally distributed z. The assignment of words is fixed, so that a seed gives the same numbers
// on every device. 16 consecutive counters serve a block of 16 * DRAWS elements: element 16 * k +
// lane of the block takes draw k of the block's counter `lane`.
//   WORDS    32-bit words per element, DRAWS = 4 / WORDS: 1, 2 (then w has 64 bits) or 4 (`rest`
//            has the 64 bits below those of w)
//   NORMAL   EXPR is of z
//   OUT, COMPUTE; EXPR also of the numbers s0, s1, s2, range, base
//   DIGITS   binary digits of the uniform numbers UNIT(w)
//   IN       EXPR also uses x, the element of an input of that type
//   DROPOUT  EXPR also uses `kept`, 1 or 0, which is stored in `mask` (8 bits per element)
// A work-item takes `per_item` times WIDTH counters. Grid: work-items.
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "philox.clh"

#define DRAWS (4 / WORDS)
#if WORDS >= 2
#define BITS VEC(ulong)
#define SIGNED long
#define WORD_BITS 64
#define UPPER(w) ((w) >> 32)  // 32 bits
#define JOIN(high, low) ((CONVERT(ulong, high) << 32) | CONVERT(ulong, low))
#else
#define BITS WORD
#define SIGNED int
#define WORD_BITS 32
#define UPPER(w) CONVERT(ulong, w)
#endif

#ifdef COMPUTE_IS_DOUBLE
#define SCALE(power) CAT3(0x1p-, power, )
#define PI 3.14159265358979323846
// A number in (0, 1).
#define OPEN_OR_ONE(w) ((CONVERT(T, (w) >> 12) + 0.5) * 0x1p-52)
#else
#define SCALE(power) CAT3(0x1p-, power, f)
#define PI 3.14159265f
// A number with all 32 bits, for long tails; rounding may give 1.
#define OPEN_OR_ONE(w) FRACTION(w)
#endif
// A number in (0, 1] with all bits of w.
#define FRACTION(w) ((CONVERT(T, w) + L(0.5)) * SCALE(WORD_BITS))
// The angle of a signed number; 2^WORD_BITS is half a turn.
#define ANGLE(s) (FRACTION(s) * PI)
// A number in [0, 1) with DIGITS binary digits.
#define UNIT(w) (CONVERT(T, (w) >> (WORD_BITS - DIGITS)) * SCALE(DIGITS))
// The upper 64 bits of a product. NVIDIA's drivers 470, the last ones for Kepler, compute mul_hi()
// of ulong wrongly (https://github.com/vmx/nvidiabugminimal).
static inline VEC(ulong) upper_product(const VEC(ulong) x, const ulong y) {
  const ulong lower = 0xFFFFFFFFul, y0 = y & lower, y1 = y >> 32;
  const VEC(ulong) x0 = x & lower, x1 = x >> 32;
  const VEC(ulong) middle = x1 * y0 + ((x0 * y0) >> 32);  // cannot overflow
  return x1 * y1 + (middle >> 32) + ((x0 * y1 + (middle & lower)) >> 32);
}
// The same for 128 bits of x: the upper 64 bits of 192.
static inline VEC(ulong) upper_product_128(const VEC(ulong) x, const VEC(ulong) rest,
                                           const ulong y) {
  const VEC(ulong) middle = x * y, sum = middle + upper_product(rest, y);
  return upper_product(x, y) + (sum < middle ? (VEC(ulong))(1) : (VEC(ulong))(0));
}
// An integer from 0 to range - 1: BELOW of 32 bits, for ranges below 2^32; BELOW_64 and BELOW_128
// of 64 and 128 bits, for any range.
#define BELOW(w) CONVERT(long, (UPPER(w) * (VEC(ulong))(range)) >> 32)
#define BELOW_64(w) AS(long, upper_product(w, range))
#define BELOW_128(w, rest) AS(long, upper_product_128(w, rest, range))
// 1 for `some` of 2^32 words, else 0.
#define CHANCE_OF(w, some) (UPPER(w) < (some) ? (VEC(ulong))(1) : (VEC(ulong))(0))
#define CHANCE(w) CHANCE_OF(w, (VEC(ulong))(range))

#ifndef STORED_AS_IT_IS
// An exponential variate. Near 0 it comes from the distance of the uniform number to 1, which has
// more digits than the number.
static inline V exponential_of(const BITS w) {
  const V from_1 = log1p(-FRACTION(~w)), from_0 = log(FRACTION(w));
  return -(AS(SIGNED, w) < 0 ? from_1 : from_0);
}
// A Cauchy variate, the tangent of pi times u - 1/2 for a uniform number u. The tails are
// cotangents of small angles, which have more digits.
static inline V cauchy_of(const BITS w) {
  const BITS centred = w ^ (BITS)((BITS)(1) << (WORD_BITS - 1));
  const VEC(SIGNED) from_0 = AS(SIGNED, w), from_half = AS(SIGNED, centred);
  const VEC(SIGNED) quarter = (VEC(SIGNED))((SIGNED)1 << (WORD_BITS - 2));
  const V tail = ANGLE(from_0), middle = ANGLE(from_half);
  const V tangent = tan(from_0 < quarter && from_0 >= -quarter ? tail : middle);
  return from_0 < quarter && from_0 >= -quarter ? C(-1) / tangent : tangent;
}
#endif

#ifdef IN
#define INPUT CTENSOR(in),
#else
#define INPUT
#endif
#ifdef DROPOUT
#define MASKED TENSOR(mask),
#else
#define MASKED
#endif

#if WIDTH > 1
#define STORE_DRAWN(dt, p, at, value)                                        \
  if (at + WIDTH <= count) {                                                 \
    STOREV(dt, p, at, value);                                                \
  } else {                                                                   \
    VAL(dt) some[WIDTH];                                                     \
    CAT(vstore, WIDTH)(VALUE(dt, value), 0, some);                           \
    for (ulong l = 0; l < WIDTH && at + l < count; ++l) STORE_VALUE(dt, p, at + l, some[l]); \
  }
#define LOAD_DRAWN(x, at)                                                    \
  V x;                                                                       \
  if (at + WIDTH <= count) {                                                 \
    x = CONVERT(T, LOADV(IN, CPTR(MEM(IN), in), at));                        \
  } else {                                                                   \
    T some[WIDTH];                                                           \
    for (ulong l = 0; l < WIDTH; ++l)                                        \
      some[l] = at + l < count ? CAT(convert_, T)(LOAD(IN, CPTR(MEM(IN), in), at + l)) : (T)0; \
    x = CAT(vload, WIDTH)(0, some);                                          \
  }
#else
#define STORE_DRAWN(dt, p, at, value) STORE(dt, p, at, value);
#define LOAD_DRAWN(x, at) const T x = CAT(convert_, T)(LOAD(IN, CPTR(MEM(IN), in), at));
#endif

#ifdef NORMAL
#define EMIT(k, drawn)                                            \
  {                                                               \
    const ulong at = first + 16 * k;                              \
    const V z = drawn;                                            \
    if (at < count) {                                             \
      STORE_DRAWN(OUT, PTR(MEM(OUT), out), at, (EXPR))            \
    }                                                             \
  }
// Two normal numbers from two uniform ones, by Box and Muller's method.
#define EMIT_PAIR(k, u, v)                                        \
  {                                                               \
    const V radius = sqrt(L(-2.0) * log(OPEN_OR_ONE(u)));         \
    const V angle = UNIT(v) * (2 * PI);                           \
    EMIT(k, radius * cos(angle))                                  \
    EMIT((k + 1), radius * sin(angle))                            \
  }
#elif defined(DROPOUT)
#define EMIT(k, drawn)                                                   \
  {                                                                      \
    const ulong at = first + 16 * k;                                     \
    if (at < count) {                                                    \
      const VEC(ulong) kept = CHANCE(drawn);                             \
      LOAD_DRAWN(x, at)                                                  \
      STORE_DRAWN(b8, PTR(uchar, mask), at, CONVERT(uchar, kept))        \
      STORE_DRAWN(OUT, PTR(MEM(OUT), out), at, x * CONVERT(T, kept) * s0) \
    }                                                                    \
  }
#else
#ifdef IN
#define LOAD_X(at) LOAD_DRAWN(x, at)
#else
#define LOAD_X(at)
#endif
#define EMIT(k, drawn)                                            \
  {                                                               \
    const ulong at = first + 16 * k;                              \
    const BITS w = drawn;                                         \
    if (at < count) {                                             \
      LOAD_X(at)                                                  \
      STORE_DRAWN(OUT, PTR(MEM(OUT), out), at, (EXPR))            \
    }                                                             \
  }
#endif

// The types of s0, s1, s2 in EXPR.
typedef struct {
  T s[3];
} Numbers;

__kernel void KERNEL(TENSOR(out), INPUT MASKED const ulong seed, const ulong offset,
                     const Numbers numbers, const ulong range, const long base, const ulong count,
                     const ulong per_item) {
  const T s0 = numbers.s[0], s1 = numbers.s[1], s2 = numbers.s[2];
  const ulong counters = DIVIDE_UP(count, 16 * DRAWS) * 16;
  const ulong last = min((get_global_id(0) + 1) * per_item * WIDTH, counters);
#if WIDTH > 1
  const VEC(ulong) lanes = LANE_NUMBERS(ulong, WIDTH);
#else
  const ulong lanes = 0;
#endif
  for (ulong n = get_global_id(0) * per_item * WIDTH; n < last; n += WIDTH) {
    const ulong first = n / 16 * (16 * DRAWS) + n % 16;
    const Words r = philox((VEC(ulong))(offset + n) + lanes, seed);
#if defined(NORMAL) && WORDS == 1
    EMIT_PAIR(0, r.w0, r.w1)
    EMIT_PAIR(2, r.w2, r.w3)
#elif defined(NORMAL)
    EMIT_PAIR(0, JOIN(r.w1, r.w0), JOIN(r.w3, r.w2))
#elif WORDS == 4
    const VEC(ulong) rest = JOIN(r.w3, r.w2);
    EMIT(0, JOIN(r.w1, r.w0))
#elif WORDS == 1
    EMIT(0, r.w0)
    EMIT(1, r.w1)
    EMIT(2, r.w2)
    EMIT(3, r.w3)
#else
    EMIT(0, JOIN(r.w1, r.w0))
    EMIT(1, JOIN(r.w3, r.w2))
#endif
  }
}
