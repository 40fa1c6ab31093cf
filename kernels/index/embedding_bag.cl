// Sums, means or maxima of bags of an embedding's rows, both families. Bag b has the indices from
// offsets[b] to offsets[b + 1]. The last bag extends to the end, unless LAST_OFFSET. The index
// `padding` is ignored.
//   IN, COMPUTE: element type of the rows; INDEX: C type of indices and offsets
//   SUM, MEAN or MAXIMUM; WEIGHTED: rows are multiplied by `weights`
// `counts` gets the number of rows of each bag. With MAXIMUM, `positions` gets the row of each
// largest element, or -1.
// Grid (grid.clh): units are bags, inner elements their columns. GPUs leave bags of more than MOST
// indices to embedding_bag_long, where a work-group shares a bag (stripes.clh).
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "grid.clh"
#include "stripes.clh"

#define BAGS                                                                               \
  CTENSOR(rows), CTENSOR(index), CTENSOR(offsets), CTENSOR(weights), TENSOR(out),           \
      TENSOR(counts), TENSOR(positions), const ulong units, const ulong inner
#define INDICES                                                                            \
  const ulong indices, const long row_count, const long padding, const int order_site,     \
      FAULT_ARGUMENT
#ifdef LAST_OFFSET
#define FIND_BAG                                                     \
  const ulong first = (ulong)CPTR(INDEX, offsets)[bag];              \
  const ulong last = (ulong)CPTR(INDEX, offsets)[bag + 1];
#else
#define FIND_BAG                                                     \
  const ulong first = (ulong)CPTR(INDEX, offsets)[bag];              \
  const ulong last = bag + 1 < units ? (ulong)CPTR(INDEX, offsets)[bag + 1] : indices;
#endif
// Declares the row of index n; does `continue` if the index has no row.
#define FIND_ROW                                     \
  const long row = CPTR(INDEX, index)[n];            \
  if (row < 0 || row >= row_count) {                 \
    report_fault(FAULT_FORWARD, row, row_count);     \
    continue;                                        \
  }                                                  \
  if (row == padding) continue;
#ifdef WEIGHTED
#define ELEMENT                                                  \
  ((T)LOAD(IN, CPTR(MEM(IN), rows), (ulong)row * inner + i) *    \
   (T)LOAD(IN, CPTR(MEM(IN), weights), n))
#else
#define ELEMENT ((T)LOAD(IN, CPTR(MEM(IN), rows), (ulong)row * inner + i))
#endif
#ifdef MEAN
#define FINISH(value, count) if (count > 0) value /= (T)count;
#else
#define FINISH(value, count)
#endif

GRID __kernel void embedding_bag(BAGS, const ulong per_item, INDICES) {
  FOR_UNITS(bag, units, per_item) {
    FIND_BAG
    if (last > indices || first > last || (bag == 0 && first > 0)) {
      const ulong wrong = bag == 0 && first > 0 ? first : last;
      report_fault(fault_word, order_site, (long)wrong, (long)indices);
    }
    const ulong end = min(last, indices);
#ifdef MOST
    if (end > first && end - first > MOST) continue;
#endif
    FOR_INNER(i, inner) {
      T value = 0;
      long count = 0, position = -1;
      for (ulong n = first; n < end; ++n) {
        FIND_ROW
        const T x = ELEMENT;
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
      FINISH(value, count)
      STORE(IN, PTR(MEM(IN), out), bag * inner + i, value);
      if (i == 0) PTR(INDEX, counts)[bag] = (INDEX)count;
#ifdef MAXIMUM
      PTR(INDEX, positions)[bag * inner + i] = (INDEX)position;
#endif
    }
  }
}

#ifdef MOST
// Takes the first of equal maxima. A NaN is the maximum if it is the first element, else it is
// skipped.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void embedding_bag_long(
    BAGS, const StripeShare share, INDICES) {
  __local T values[GROUP];
  __local long counts_of[GROUP];
#ifdef MAXIMUM
  __local T heads[GROUP];  // the first elements of each column
  __local ulong places[GROUP], head_places[GROUP];
#endif
  STRIPES
  const ulong i = column;
  FOR_LONG(bag, units, FIND_BAG const ulong end = max(first, min(last, indices));, end - first)
    T value = 0, head = 0;
    long count = 0;
    ulong place = ULONG_MAX, head_place = ULONG_MAX;
    if (i < inner) {
      FOR_STRIPE(n, first, end) {
        FIND_ROW
        const T x = ELEMENT;
#ifdef MAXIMUM
        if (head_place == ULONG_MAX) {
          head = x;
          head_place = n;
        }
        if (!isnan(x) && (place == ULONG_MAX || x > value)) {
          value = x;
          place = n;
        }
#else
        value += x;
#endif
        ++count;
      }
    }
    values[item] = value;
    counts_of[item] = count;
#ifdef MAXIMUM
    places[item] = place;
    heads[item] = head;
    head_places[item] = head_place;
#define JOIN_MAXIMA                                                                             \
  if (places[other] != ULONG_MAX &&                                                             \
      (places[item] == ULONG_MAX || values[other] > values[item] ||                             \
       (values[other] == values[item] && places[other] < places[item]))) {                      \
    values[item] = values[other];                                                               \
    places[item] = places[other];                                                               \
  }                                                                                             \
  if (head_places[other] < head_places[item]) {                                                 \
    heads[item] = heads[other];                                                                 \
    head_places[item] = head_places[other];                                                     \
  }
    JOIN_STRIPES(JOIN_MAXIMA counts_of[item] += counts_of[other];)
#else
    JOIN_STRIPES(values[item] += values[other]; counts_of[item] += counts_of[other];)
#endif
    if (stripe == 0 && i < inner) {
      value = values[item];
      count = counts_of[item];
#ifdef MAXIMUM
      place = places[item];
      if (count > 0 && isnan(heads[item])) {
        value = heads[item];
        place = head_places[item];
      }
      PTR(INDEX, positions)[bag * inner + i] = count > 0 ? (INDEX)CPTR(INDEX, index)[place] : -1;
#endif
      FINISH(value, count)
      STORE(IN, PTR(MEM(IN), out), bag * inner + i, value);
      if (i == 0) PTR(INDEX, counts)[bag] = (INDEX)count;
    }
  END_LONG
}
#endif
