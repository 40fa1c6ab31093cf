// Writes to indexed elements in a fixed order, for GPUs. A single work-item would write for
// seconds. So the writes are sorted by target, and equal targets are combined in blocks of `length`
// writes. For blocks of 3 writes of values a, b, ... to the targets 5 and 8:
//
//   targets, sorted   5 5 5 | 5 5 8 | 8
//   index_blocks      5: old + a + b + c | partial: d + e, 8: old + f | partial: g
//   index_join        5: + (d + e), 8: + g
//
//   KEY       the type of targets, which are byte offsets; KEY_MAX: the write is skipped
//   ROW_INDEX a write is a row of `inner` elements; else it is one element, and `inner` is 1
// Other defines: index.clh.
#include "index.clh"

#define STORE_KEY(write)                                    \
  {                                                         \
    long offset = row + (long)i * g.stride[0];              \
    int exists = 1;                                         \
    EACH_INDEX(ADD_OFFSET)                                  \
    PTR(KEY, keys)[write] = exists ? (KEY)offset : KEY_MAX; \
  }

// Computes the target of each write, to be sorted.
__kernel void index_keys(EACH_INDEX(PARAMETER) TENSOR(keys), const Geometry g, const ulong units,
                         const ulong per_item, FAULT_ARGUMENT) {
  FOR_UNITS(u, units, per_item) {
    const long row = row_offset(u, &g, 0);
    EACH_INDEX(ROW_POINTER)
#ifdef ROW_INDEX
    const ulong i = 0;
    STORE_KEY(u)
#else
    FOR_INNER(i, g.size[0]) STORE_KEY(u * g.size[0] + i)
#endif
  }
}

#define SORTED CTENSOR(keys), CTENSOR(order)
#define KEY_AT(j) CPTR(KEY, keys)[j]
#define WRITE_AT(j) ((ulong)CPTR(long, order)[j])
#define TARGET(key) \
  ((__global MEM(DT) *)(a_base + a_offset + (key) + (long)i * g.stride[0]))

#ifndef FILL
// The value of a write for element i of its row.
static inline __global const MEM(DT) *value_of(__global const char *b, const Geometry *g,
                                               const ulong write, const ulong i) {
#ifdef ROW_INDEX
  const ulong row = write, element = i;
#else
  const ulong row = write / g->size[0], element = write - row * g->size[0];
#endif
  return (__global const MEM(DT) *)(b + row_offset(row, g, 1) + (long)element * g->stride[NDIM]);
}
#undef VALUE_AT
#define VALUE_AT(j) \
  CAT(convert_, T)(LOAD(DT, value_of(b_base + b_offset, &g, WRITE_AT(j), i), 0))
#endif

#ifdef COMBINE
#define COMBINED(x, y) VALUE(DT, COMBINE(x, y))

__kernel void index_blocks(TENSOR(a), VALUE_PARAMETER, SORTED, TENSOR(partial), const Geometry g,
                           const ulong count, const ulong length, const ulong units,
                           const ulong inner, const ulong per_item) {
  FOR_UNITS(block, units, per_item) FOR_INNER(i, inner) {
    ulong j = block * length;
    const ulong end = min(j + length, count);
    const int continues = j > 0 && KEY_AT(j - 1) == KEY_AT(j);
    while (j < end && KEY_AT(j) != KEY_MAX) {
      const KEY key = KEY_AT(j);
      T x = VALUE_AT(j);
      if (j > block * length || !continues) {
        const T old = LOAD(DT, TARGET(key), 0);
        x = COMBINED(old, x);
      }
      const ulong first = j;
      for (++j; j < end && KEY_AT(j) == key; ++j) {
        const T y = VALUE_AT(j);
        x = COMBINED(x, y);
      }
      if (first == block * length && continues) {
        PTR(T, partial)[block * inner + i] = x;
      } else {
        STORE(DT, TARGET(key), 0, x);
      }
    }
  }
}

// Adds the partial sums of the next blocks to a block's last target, if the target begins in this
// block.
__kernel void index_join(TENSOR(a), CTENSOR(keys), CTENSOR(partial), const Geometry g,
                         const ulong count, const ulong length, const ulong units,
                         const ulong inner, const ulong per_item) {
  FOR_UNITS(block, units, per_item) FOR_INNER(i, inner) {
    const ulong first = block * length;
    ulong next = first + length;
    if (next >= count) continue;
    const KEY key = KEY_AT(next);
    if (key == KEY_MAX || KEY_AT(next - 1) != key) continue;
    if (first > 0 && KEY_AT(first - 1) == key) continue;
    T x = LOAD(DT, TARGET(key), 0);
    for (; next < count && KEY_AT(next) == key; next += length) {
      const T y = CPTR(T, partial)[next / length * inner + i];
      x = COMBINED(x, y);
    }
    STORE(DT, TARGET(key), 0, x);
  }
}
#else
// Stores the last of the writes to each target.
__kernel void index_last(TENSOR(a), VALUE_PARAMETER, SORTED, const Geometry g, const ulong units,
                         const ulong inner, const ulong per_item) {
  FOR_UNITS(j, units, per_item) FOR_INNER(i, inner) {
    const KEY key = KEY_AT(j);
    if (key == KEY_MAX || (j + 1 < units && KEY_AT(j + 1) == key)) continue;
    *TARGET(key) = *value_of(b_base + b_offset, &g, WRITE_AT(j), i);
  }
}
#endif
