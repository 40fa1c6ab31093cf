// Distances between rows of `size` elements, in the norm P, and their gradient.
//   DT, COMPUTE; ZERO, ONE, TWO, INFINITE: the value of P, else it is the argument p
//   BELOW_TWO: p < 2
//   PAIRS: distances between rows of one matrix, each pair once: row i and the rows j > i
// row_distance: out[batch][i][j]; grid (grid.clh): batches and i, j. row_distance_backward: the
// gradient of x, from the gradients and distances of its rows to all rows of y; grid: batches and
// i, elements of the row.
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "grid.clh"

#define AT(tensor, i) LOAD(DT, CPTR(MEM(DT), tensor), i)

// Position of the pair of rows i < j of n.
static inline ulong pair(const ulong i, const ulong j, const ulong n) {
  return i * n - i * (i + 1) / 2 + (j - i - 1);
}

GRID __kernel void row_distance(CTENSOR(x), CTENSOR(y), TENSOR(out), const ulong units,
                            const ulong y_rows, const ulong per_item, const ulong x_rows,
                            const ulong size, const T p) {
  FOR_UNITS(u, units, per_item) FOR_INNER(j, y_rows) {
#ifdef PAIRS
    if (j <= u) continue;
    const ulong target = pair(u, j, y_rows);
#else
    const ulong target = u * y_rows + j;
#endif
    const ulong from = u * size, other = (u / x_rows * y_rows + j) * size;
    T sum = 0;
    for (ulong m = 0; m < size; ++m) {
      const T d = fabs(AT(x, from + m) - AT(y, other + m));
#if defined(ZERO)
      sum += isnan(d) ? d : (T)(d != 0);
#elif defined(ONE)
      sum += d;
#elif defined(TWO)
      sum += d * d;
#elif defined(INFINITE)
      sum = MAX(sum, d);
#else
      sum += pow(d, p);
#endif
    }
#if defined(TWO)
    sum = sqrt(sum);
#elif !defined(ZERO) && !defined(ONE) && !defined(INFINITE)
    sum = pow(sum, 1 / p);
#endif
    STORE(DT, PTR(MEM(DT), out), target, sum);
  }
}

// grad times the derivative of `norm` by d; `norm` is the norm of a vector that has the element d.
static inline T derivative(const T d, const T grad, const T norm, const T p) {
#if defined(ZERO)
  return 0;
#elif defined(ONE)
  return grad * SIGN(d);
#elif defined(TWO)
  return norm == 0 ? 0 : grad * d / norm;
#elif defined(INFINITE)
  return fabs(d) == norm ? grad * SIGN(d) : 0;
#elif defined(BELOW_TWO)
  if (norm == 0 || (d == 0 && p < 1)) return 0;
  return SIGN(d) * pow(fabs(d), p - 1) * grad / pow(norm, p - 1);
#else
  return norm == 0 ? 0 : d * pow(fabs(d), p - 2) * grad / pow(norm, p - 1);
#endif
}

GRID __kernel void row_distance_backward(CTENSOR(grad), CTENSOR(x), CTENSOR(y), CTENSOR(distances),
                                     TENSOR(out), const ulong units, const ulong size,
                                     const ulong per_item, const ulong x_rows, const ulong y_rows,
                                     const T p) {
  FOR_UNITS(u, units, per_item) FOR_INNER(m, size) {
    const T a = AT(x, u * size + m);
    const ulong others = u / x_rows * y_rows;
    T sum = 0;
    for (ulong j = 0; j < y_rows; ++j) {
#ifdef PAIRS
      if (j == u) continue;
      const ulong from = pair(min(u, j), max(u, j), y_rows);
#else
      const ulong from = u * y_rows + j;
#endif
      sum += derivative(a - AT(y, (others + j) * size + m), AT(grad, from), AT(distances, from), p);
    }
    STORE(DT, PTR(MEM(DT), out), u * size + m, sum);
  }
}
