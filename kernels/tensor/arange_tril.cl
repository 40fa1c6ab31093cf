// Sequences and triangles, both families.
//   sequence: a contiguous result of type OUT. Element i is EXPR, in COMPUTE, of i, the number `n`
//     of elements, and the numbers s0, s1, s2
//   triangle: copies contiguous matrices of rows x columns, with zeros except where column minus
//     row is at most (UPPER: at least) `diagonal`. An element is WORDS words of type OUT; `columns`
//     counts words
#include "common.clh"
#include "types.clh"
#ifdef COMPUTE_IS_COMPLEX
#include "complex.clh"
#else
#include "math.clh"
#endif
#include "grid.clh"

#ifdef EXPR
GRID __kernel void sequence(TENSOR(out), const T s0, const T s1, const T s2, const ulong n) {
  FOR_INNER(element, n) {
    const T i = (T)element;
    STOREV(OUT, PTR(MEM(OUT), out), element, EXPR);
  }
}
#else
GRID __kernel void triangle(CTENSOR(in), TENSOR(out), const ulong units, const ulong per_item,
                            const ulong rows, const ulong columns, const long diagonal) {
  FOR_UNITS(u, units, per_item) {
    const long row = (long)(u % rows);
    FOR_INNER(i, columns) {
#ifdef UPPER
      const int keep = (long)(i / WORDS) - row >= diagonal;
#else
      const int keep = (long)(i / WORDS) - row <= diagonal;
#endif
      const ulong n = u * columns + i;
      MEM(OUT) value = 0;
      if (keep) value = CPTR(MEM(OUT), in)[n];
      PTR(MEM(OUT), out)[n] = value;
    }
  }
}
#endif
