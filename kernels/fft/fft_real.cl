// Real Fourier transforms of an even length n by complex transforms of length h = n / 2, which
// treat pairs of real numbers as complex numbers; both families. Rows are contiguous; a unit is a
// row (grid.clh).
//   z[j] = x[2j] + i x[2j + 1] has the transform Z. With E and O the transforms of the even and of
//   the odd elements of x, r[k] = exp(-2 pi i k / n):
//     E[k] = (Z[k] + conj(Z[h - k])) / 2     O[k] = (Z[k] - conj(Z[h - k])) / 2i
//     X[k] = E[k] + r[k] O[k]                X[n - k] = conj(X[k])
//   fft_real_end: from the transformed rows [h] to `columns` numbers: h + 1, or all n
//   fft_real_begin: from rows of h + 1 numbers to [h], whose backward transform is the result. The
//     imaginary parts of the first and last number are ignored
//   REAL, DOUBLE: as in fft.clh; the table holds exp(2 pi i k / n) for k < n
#include "common.clh"
#include "grid.clh"

#ifdef DOUBLE
#define PAIR double2
#else
#define PAIR float2
#endif

static inline PAIR product(const PAIR z, const PAIR w) {
  return (PAIR)(z.x * w.x - z.y * w.y, z.x * w.y + z.y * w.x);
}

GRID __kernel void fft_real_end(CTENSOR(in), TENSOR(out), CTENSOR(roots), const ulong units,
                                const ulong columns, const ulong per_item, const ulong h) {
  __global const PAIR *table = CPTR(PAIR, roots);
  FOR_UNITS(u, units, per_item) {
    __global const PAIR *z = CPTR(PAIR, in) + u * h;
    __global PAIR *x = PTR(PAIR, out) + u * columns;
    FOR_INNER(i, columns) {
      const ulong k = i <= h ? i : 2 * h - i;
      const PAIR a = z[k == h ? 0 : k], b = z[k == 0 ? 0 : h - k], root = table[k];
      const PAIR even = (PAIR)(a.x + b.x, a.y - b.y), odd = (PAIR)(a.y + b.y, b.x - a.x);
      const PAIR sum = (even + product(odd, (PAIR)(root.x, -root.y))) * (REAL)0.5f;
      x[i] = i <= h ? sum : (PAIR)(sum.x, -sum.y);
    }
  }
}

GRID __kernel void fft_real_begin(CTENSOR(in), TENSOR(out), CTENSOR(roots), const ulong units,
                                  const ulong h, const ulong per_item) {
  __global const PAIR *table = CPTR(PAIR, roots);
  FOR_UNITS(u, units, per_item) {
    __global const PAIR *x = CPTR(PAIR, in) + u * (h + 1);
    __global PAIR *z = PTR(PAIR, out) + u * h;
    FOR_INNER(k, h) {
      PAIR a = x[k], b = x[h - k];
      if (k == 0) a.y = b.y = 0;
      const PAIR even = (PAIR)(a.x + b.x, a.y - b.y), difference = (PAIR)(a.x - b.x, a.y + b.y);
      const PAIR odd = product(difference, table[k]);
      z[k] = (PAIR)(even.x - odd.y, even.y + odd.x);
    }
  }
}
