// Whole Fourier transforms (fft.clh) along the middle of [outer][n][inner], CPU family. A unit is a
// block of at most `block` transforms: rows where inner is 1 (ROWS), else adjacent columns. They
// are interleaved in the task's part of the workspace, [n][block], which has two such arrays. Grid:
// tasks of `per_task` units.
//   rows a0 a1 a2 | b0 b1 b2    interleaved a0 b0 a1 b1 a2 b2: a pass works on vectors of a and b
#include "fft.clh"
#include "fft_cpu_parameters.clh"

#define DEFINE_PASS(name)                                                              \
  static inline void CAT(pass_, name)(                                                 \
      const int radix, __global const REAL *from, __global REAL *to, const ulong m,    \
      const ulong s, __global const PAIR *table, const ulong step, const REAL sign,    \
      const REAL scale) {                                                              \
    const ulong gap = m * s, root_step = m * step;                                     \
    PAIR w[MAX_RADIX];                                                                 \
    for (ulong p = 0; p < m; ++p) {                                                    \
      load_factors(w, radix, table, p * step, sign, scale);                            \
      __global const REAL *x = from + 2 * s * p;                                       \
      __global REAL *y = to + 2 * s * p * radix;                                       \
      BUTTERFLIES(CAT(butterfly_, name), 0, s)                                         \
    }                                                                                  \
  }
#ifdef RADIX_2
DEFINE_PASS(2)
#endif
#ifdef RADIX_3
DEFINE_PASS(3)
#endif
#ifdef RADIX_4
DEFINE_PASS(4)
#endif
#ifdef RADIX_5
DEFINE_PASS(5)
#endif
#ifdef RADIX_n
DEFINE_PASS(n)
#endif

#define RUN_PASS(name, radix) CAT(pass_, name)(radix, from, to, m, s, table, step, sign, scale)
static inline void run_pass(const int radix, __global const REAL *from, __global REAL *to,
                            const ulong m, const ulong s, __global const PAIR *table,
                            const ulong step, const REAL sign, const REAL scale) {
#ifdef RADIX_2
  if (radix == 2) { RUN_PASS(2, 2); return; }
#endif
#ifdef RADIX_3
  if (radix == 3) { RUN_PASS(3, 3); return; }
#endif
#ifdef RADIX_4
  if (radix == 4) { RUN_PASS(4, 4); return; }
#endif
#ifdef RADIX_5
  if (radix == 5) { RUN_PASS(5, 5); return; }
#endif
#ifdef RADIX_n
  RUN_PASS(n, radix);
#endif
}

#ifdef ROWS
#define GATHERED(i, l) ((l) * n + (i))
#define FOR_GATHERED for (ulong l = 0; l < width; ++l) for (ulong i = 0; i < n; ++i)
#else
#define GATHERED(i, l) ((i) * inner + (l))
#define FOR_GATHERED for (ulong i = 0; i < n; ++i) for (ulong l = 0; l < width; ++l)
#endif

TASK __kernel void fft(CTENSOR(in), TENSOR(out), CTENSOR(roots), TENSOR(work), const Plan plan,
                       const ulong units, const ulong per_task, const REAL sign,
                       const REAL scale) {
  const ulong outer = plan.outer, n = plan.n, inner = plan.inner, block = plan.block;
  __global const PAIR *table = CPTR(PAIR, roots);
  __global PAIR *even = PTR(PAIR, work) + get_global_id(0) * 2 * n * block;
  __global PAIR *odd = even + n * block;
  const ulong last = min((get_global_id(0) + 1) * per_task, units);
  for (ulong u = get_global_id(0) * per_task; u < last; ++u) {
#ifdef ROWS
    const ulong width = min(block, outer - u * block), start = u * block * n;
#else
    const ulong blocks = DIVIDE_UP(inner, block), column = u % blocks * block;
    const ulong width = min(block, inner - column), start = u / blocks * n * inner + column;
#endif
    __global const PAIR *source = CPTR(PAIR, in) + start;
    __global PAIR *target = PTR(PAIR, out) + start;
    const bool gathers = width > 1 || inner > 1;
    if (gathers) {
      FOR_GATHERED even[i * width + l] = source[GATHERED(i, l)];
      source = even;
    }
    ulong m = n, s = width, step = plan.table_step;
    for (int i = 0; i < plan.passes; ++i) {
      const bool end = i + 1 == plan.passes;
      const int radix = plan.radix[i];
      __global PAIR *to = end && !gathers ? target : source == even ? odd : even;
      m /= radix;
      run_pass(radix, (__global const REAL *)source, (__global REAL *)to, m, s, table, step, sign,
               end ? scale : (REAL)1);
      s *= radix;
      step *= radix;
      source = to;
    }
    if (gathers) FOR_GATHERED target[GATHERED(i, l)] = source[i * width + l];
  }
}
