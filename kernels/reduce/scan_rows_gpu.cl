// Cumulative operators along rows [rows][size], on GPUs: a work-group takes a row, or one of its
// parts, in tiles of ITEMS * PER elements. A work-item joins PER adjacent elements, and the group
// joins the work-items' states, so that adjacent work-items load adjacent elements. Parts are
// joined as in scan.cl: scan_row_totals reduces each part, and scan_rows begins a part with the
// totals of the parts before it.
//   ITEMS   work-items of a group, a power of two; other defines: scan.clh, real products SCALED
//   MAX_EXPONENT, MIN_EXPONENT   of the type in which the CPU multiplies: its numbers are below
//           2^MAX_EXPONENT, and no smaller than 2^MIN_EXPONENT
// A product that has left this range stays infinite or 0, also where the product of all elements
// is in the range again. So the tile after such an element begins with that element's result, and
// the row has one part.
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

#ifdef SCALED
#define IS_OUT(state)                                                         \
  ((state).exponent > MAX_EXPONENT || (state).exponent < MIN_EXPONENT ||      \
   ((state).exponent == MIN_EXPONENT && fabs((state).value) == (T)0.5f))
// Whether the product has left the range before this tile: that happens at most once.
#define WAS_OUT(state) ((state).value == 0 || !isfinite((state).value))
#define TILE_LOCALS __local uint last;
#define BEGIN_TILE if (item == 0) last = TILE - 1;
// Finds the last element of the tile: the first one whose result is out of the range.
#define END_TILE                                                              \
  if (!WAS_OUT(before_tile)) {                                                \
    FOR(k) {                                                                  \
      if (i + k < to && IS_OUT(inside[k])) atomic_min(&last, item * PER + k); \
    }                                                                         \
  }                                                                           \
  barrier(CLK_LOCAL_MEM_FENCE);                                               \
  const ulong end = tile + last + 1;                                          \
  FOR(k) {                                                                    \
    if (item * PER + k == last) partial[0] = inside[k];                       \
  }                                                                           \
  barrier(CLK_LOCAL_MEM_FENCE);                                               \
  before_tile = partial[0];                                                   \
  if (IS_OUT(before_tile)) {                                                  \
    const T r = RESULT(before_tile);                                          \
    before_tile = scaled(r);                                                  \
  }
#else
#define TILE_LOCALS
#define BEGIN_TILE
#define END_TILE                                                              \
  const ulong end = tile + TILE;                                              \
  before_tile = join(before_tile, partial[ITEMS - 1]);
#endif

// Joins the elements from .. to - 1 to `before_tile`; calls each(i, state) with the state up to i.
#define SCAN_TILES(each)                                                      \
  for (ulong tile = from; tile < to;) {                                       \
    const ulong i = tile + item * PER;                                        \
    BEGIN_TILE                                                                \
    State inside[PER], own = NEUTRAL;                                         \
    FOR(k) {                                                                  \
      if (i + k < to) own = join(own, STATE(LOAD(IN, x, i + k), i + k));      \
      inside[k] = own;                                                        \
    }                                                                         \
    GROUP_SCAN(own, join)                                                     \
    State before = before_tile;                                               \
    if (item > 0) before = join(before, partial[item - 1]);                   \
    FOR(k) inside[k] = join(before, inside[k]);                               \
    END_TILE                                                                  \
    FOR(k) {                                                                  \
      if (i + k < min(end, to)) each(i + k, inside[k]);                       \
    }                                                                         \
    barrier(CLK_LOCAL_MEM_FENCE);                                             \
    tile = end;                                                               \
  }

KERNEL scan_row_totals(CTENSOR(in), TENSOR(totals), const ulong size, const ulong parts,
                       const ulong share) {
  __local State partial[ITEMS];
  PART
  State own = NEUTRAL;
  ulong i = from + item;
  // Loads several elements before it joins the first.
  for (; i + (PER - 1) * ITEMS < to; i += PER * ITEMS) {
    State loaded[PER];
    FOR(k) loaded[k] = STATE(LOAD(IN, x, i + k * ITEMS), i + k * ITEMS);
    FOR(k) own = join(own, loaded[k]);
  }
  for (; i < to; i += ITEMS) own = join(own, STATE(LOAD(IN, x, i), i));
  GROUP_REDUCE(own, JOIN_IN_ANY_ORDER)
  if (item == 0) PTR(State, totals)[u] = own;
}

KERNEL scan_rows(CTENSOR(in), TENSOR(out), POSITIONS_ARGUMENT CTENSOR(totals), const ulong size,
                 const ulong parts, const ulong share) {
  __local State partial[ITEMS];
  TILE_LOCALS
  PART
  __global MEM(OUT) *y = PTR(MEM(OUT), out) + first_element;
  State before_tile = NEUTRAL;
  for (ulong before = row * parts; before < u; ++before) {
    before_tile = join(before_tile, CPTR(State, totals)[before]);
  }
  SCAN_TILES(WRITE)
}
