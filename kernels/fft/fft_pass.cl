// One pass of Fourier transforms (fft.clh) over [outer][length][s], both families; out of place.
//   RADIX, and BUTTERFLY_NAME: its butterfly
// A unit is (outer, p) with p < m = length / RADIX (grid.clh). `step`: entries of the table /
// length.
#include "fft.clh"
#include "grid.clh"

GRID __kernel void fft_pass(CTENSOR(in), TENSOR(out), CTENSOR(roots), const ulong units,
                            const ulong s, const ulong per_item, const ulong m, const ulong step,
                            const REAL sign, const REAL scale) {
  const int radix = RADIX;
  const ulong gap = m * s, root_step = m * step;
  __global const PAIR *table = CPTR(PAIR, roots);
  FOR_UNITS(u, units, per_item) {
    const ulong outer = u / m, p = u % m;
    PAIR w[RADIX];
    load_factors(w, RADIX, table, p * step, sign, scale);
    __global const REAL *x = CPTR(REAL, in) + 2 * s * (outer * m * RADIX + p);
    __global REAL *y = PTR(REAL, out) + 2 * s * (outer * m + p) * RADIX;
#ifdef TASKS
    BUTTERFLIES(BUTTERFLY_NAME, INNER_FIRST(s), INNER_LAST(s))
#else
    FOR_INNER(q, s) BUTTERFLY(SINGLE(BUTTERFLY_NAME), q)
#endif
  }
}
