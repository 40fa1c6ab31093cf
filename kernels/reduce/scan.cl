// Cumulative sums, products, logarithms of sums of exponentials, maxima and minima along the middle
// of [outer][size][inner]. A row may be split into parts. Then scan_totals first reduces each part
// to its total, in `totals` [outer][parts][inner], and scan begins a part with the totals of the
// parts before it (reduce, then scan). For example a sum:
//
//   row           1 2 3 | 4 5 6 | 7 8
//   scan_totals     6   |  15   |  15
//   scan          1 3 6 | 10 15 21 | 28 36       begins with 0, 6 and 21
//
// If a product of floating-point or complex numbers leaves the range, it stays infinite or 0.
// Totals do not show that, so such rows have one part.
//   LANES   columns of a work-item; other defines: scan.clh
// Grid (grid.clh): parts of all rows, blocks of LANES columns.
#include "scan.clh"
#include "grid.clh"

#define PART                                                                  \
  const ulong share = DIVIDE_UP(size, parts);                                 \
  const ulong row = u / parts, from = min(u % parts * share, size);           \
  const ulong to = min(from + share, size);                                   \
  __global const MEM(IN) *x = CPTR(MEM(IN), in) + row * size * inner;
#define COLUMNS                                                               \
  const ulong first = block * LANES;                                          \
  const int lanes = (int)min((ulong)LANES, inner - first);
#define AT(i, l) ((i) * inner + first + (l))
// Adds four elements to each other first, so that only one of four operations waits for the running
// sum; their rounding errors are lost. (Mesa's compiler makes wrong code of this where they are
// structs. A product of four may overflow after a 0.)
#if LANES == 1 && defined(SUM)
#define ADD_FOUR
#endif
#define FOR_LANES for (int l = 0; l < lanes; ++l)

GRID __kernel void scan_totals(CTENSOR(in), TENSOR(totals), const ulong units, const ulong blocks,
                               const ulong per_item, const ulong size, const ulong inner,
                               const ulong parts) {
  FOR_UNITS(u, units, per_item) {
    PART
    FOR_INNER(block, blocks) {
      COLUMNS
      State state[LANES];
      FOR_LANES state[l] = NEUTRAL;
      ulong i = from;
#ifdef ADD_FOUR
      for (; i + 4 <= to; i += 4) {
        T sum = AS_STATE(LOAD(IN, x, AT(i, 0)));
        for (int k = 1; k < 4; ++k) sum += AS_STATE(LOAD(IN, x, AT(i + k, 0)));
        state[0] = join(state[0], AS_SUM(sum));
      }
#endif
      for (; i < to; ++i) FOR_LANES state[l] = join(state[l], STATE(LOAD(IN, x, AT(i, l)), i));
      FOR_LANES PTR(State, totals)[u * inner + first + l] = state[l];
    }
  }
}

GRID __kernel void scan(CTENSOR(in), TENSOR(out), POSITIONS_ARGUMENT CTENSOR(totals),
                        const ulong units, const ulong blocks, const ulong per_item,
                        const ulong size, const ulong inner, const ulong parts) {
  FOR_UNITS(u, units, per_item) {
    PART
    const ulong first_element = row * size * inner;
    __global MEM(OUT) *y = PTR(MEM(OUT), out) + first_element;
    FOR_INNER(block, blocks) {
      COLUMNS
      State state[LANES];
      FOR_LANES state[l] = NEUTRAL;
      for (ulong before = row * parts; before < u; ++before)
        FOR_LANES state[l] = join(state[l], CPTR(State, totals)[before * inner + first + l]);
      ulong i = from;
#ifdef ADD_FOUR
      for (; i + 4 <= to; i += 4) {
        T s[4];
        for (int k = 0; k < 4; ++k) s[k] = AS_STATE(LOAD(IN, x, AT(i + k, 0)));
        for (int k = 1; k < 4; ++k) s[k] = s[k - 1] + s[k];
        for (int k = 0; k < 4; ++k) {
          const State joined = join(state[0], AS_SUM(s[k]));
          WRITE(AT(i + k, 0), joined);
          if (k == 3) state[0] = joined;
        }
      }
#endif
      for (; i < to; ++i) {
        FOR_LANES {
          state[l] = join(state[l], STATE(LOAD(IN, x, AT(i, l)), i));
          WRITE(AT(i, l), state[l]);
        }
      }
    }
  }
}
