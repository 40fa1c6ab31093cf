// Sums, means or maxima of bags of an embedding's rows, both families. Bag b has the indices from
// offsets[b] to offsets[b + 1]. The last bag extends to the end, unless LAST_OFFSET. The index
// `padding` is ignored.
//   IN, COMPUTE: element type of the rows; INDEX: C type of indices and offsets
//   SUM, MEAN or MAXIMUM; WEIGHTED: rows are multiplied by `weights`
// `counts` gets the number of rows of each bag. With MAXIMUM, `positions` gets the row of each
// largest element, or -1.
// Grid (grid.clh): units are bags, inner elements their columns.
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "grid.clh"

GRID __kernel void embedding_bag(CTENSOR(rows), CTENSOR(index), CTENSOR(offsets), CTENSOR(weights),
                                 TENSOR(out), TENSOR(counts), TENSOR(positions), const ulong units,
                                 const ulong inner, const ulong per_item, const ulong indices,
                                 const long row_count, const long padding,
                                 const int order_site, FAULT_ARGUMENT) {
  FOR_UNITS(bag, units, per_item) {
    const ulong first = (ulong)CPTR(INDEX, offsets)[bag];
#ifdef LAST_OFFSET
    const ulong last = (ulong)CPTR(INDEX, offsets)[bag + 1];
#else
    const ulong last = bag + 1 < units ? (ulong)CPTR(INDEX, offsets)[bag + 1] : indices;
#endif
    if (last > indices || first > last || (bag == 0 && first > 0)) {
      const ulong wrong = bag == 0 && first > 0 ? first : last;
      report_fault(fault_word, order_site, (long)wrong, (long)indices);
    }
    FOR_INNER(i, inner) {
      T value = 0;
      long count = 0, position = -1;
      for (ulong n = first; n < min(last, indices); ++n) {
        const long row = CPTR(INDEX, index)[n];
        if (row < 0 || row >= row_count) {
          report_fault(FAULT_FORWARD, row, row_count);
          continue;
        }
        if (row == padding) continue;
        T x = LOAD(IN, CPTR(MEM(IN), rows), (ulong)row * inner + i);
#ifdef WEIGHTED
        x *= LOAD(IN, CPTR(MEM(IN), weights), n);
#endif
#ifdef MAXIMUM
        if (position < 0 || x > value) {
          value = x;
          position = row;
        }
#else
        value += x;
#endif
        ++count;
      }
#ifdef MEAN
      if (count > 0) value /= (T)count;
#endif
      STORE(IN, PTR(MEM(IN), out), bag * inner + i, value);
      if (i == 0) PTR(INDEX, counts)[bag] = (INDEX)count;
#ifdef MAXIMUM
      PTR(INDEX, positions)[bag * inner + i] = (INDEX)position;
#endif
    }
  }
}
