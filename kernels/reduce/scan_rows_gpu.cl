// Cumulative operators along rows [rows][size], on GPUs: a work-group takes a row, or one of its
// parts, in tiles of ITEMS * PER elements. A work-item joins PER adjacent elements, and the group
// joins the work-items' states, so that adjacent work-items load adjacent elements. Parts are
// joined as in scan.cl: scan_row_totals reduces each, and scan_rows begins with the totals before.
//   ITEMS   work-items of a group, a power of two; other defines: scan.clh, but not PRODUCT:
//           after a 0 the result is 0, though the product of a later tile overflows
// Grid: parts of all rows.
#include "scan.clh"
#define GROUP ITEMS
#include "group.clh"

#define PER 4
#define TILE (ITEMS * PER)
#define FOR(k) _Pragma("unroll") for (int k = 0; k < PER; ++k)
#define KERNEL __attribute__((reqd_work_group_size(ITEMS, 1, 1))) __kernel void

#ifdef POSITIONS
#define JOIN_IN_ANY_ORDER(x, y) ((x).at < (y).at ? join(x, y) : join(y, x))
#else
#define JOIN_IN_ANY_ORDER(x, y) join(x, y)
#endif

#define PART                                                                  \
  const uint item = get_local_id(0);                                          \
  const ulong u = group_id(0), row = u / parts, from = u % parts * share;     \
  const ulong to = min(from + share, size), first_element = row * size;       \
  __global const MEM(IN) *x = CPTR(MEM(IN), in) + first_element;

KERNEL scan_row_totals(CTENSOR(in), TENSOR(totals), const ulong size, const ulong parts,
                       const ulong share) {
  __local State partial[ITEMS];
  PART
  State own = NEUTRAL;
  for (ulong i = from + item; i < to; i += ITEMS) own = join(own, STATE(LOAD(IN, x, i), i));
  GROUP_REDUCE(own, JOIN_IN_ANY_ORDER)
  if (item == 0) PTR(State, totals)[u] = own;
}

KERNEL scan_rows(CTENSOR(in), TENSOR(out), POSITIONS_ARGUMENT CTENSOR(totals), const ulong size,
                 const ulong parts, const ulong share) {
  __local State partial[ITEMS];
  PART
  __global MEM(OUT) *y = PTR(MEM(OUT), out) + first_element;
  State before_tile = NEUTRAL;
  for (ulong before = row * parts; before < u; ++before)
    before_tile = join(before_tile, CPTR(State, totals)[before]);
  for (ulong tile = from; tile < to; tile += TILE) {
    const ulong i = tile + item * PER;
    State inside[PER], own = NEUTRAL;
    FOR(k) {
      if (i + k < to) own = join(own, STATE(LOAD(IN, x, i + k), i + k));
      inside[k] = own;
    }
    GROUP_SCAN(own, join)
    State before = before_tile;
    if (item > 0) before = join(before, partial[item - 1]);
    before_tile = join(before_tile, partial[ITEMS - 1]);
    FOR(k) {
      if (i + k < to) {
        const State result = join(before, inside[k]);
        WRITE(i + k, result);
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}
