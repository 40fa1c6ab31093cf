// Reads or writes elements that index tensors select; both families. Iteration i moves one element
// between operand 0 (the result) and operand 1. One of them is `indexed`: each index tensor adds
// its index times its step to the offset.
//   GET      result[i] = indexed[index[i]]; PUT: indexed[index[i]] = value[i]
//   ONE_ITEM one work-item writes all elements (grid.clh)
//   ROW_INDEX the indices are the same along a row; ROW_DENSE: and rows are contiguous;
//   ROW_QUADS: and consist of aligned uint4, which a work-item moves
// Other defines: index.clh.
#include "index.clh"

#ifdef GET
#define MOVE(to, from) *(__global MEM(DT) *)(to) = *(__global const MEM(DT) *)((from) + offset);
#elif defined(COMBINE)
#define MOVE(to, from) combine((to) + offset, CAT(convert_, T)(VALUE_AT(from)));
#elif defined(FILL)
#define MOVE(to, from) STORE(DT, (__global MEM(DT) *)((to) + offset), 0, value);
#else
#define MOVE(to, from) *(__global MEM(DT) *)((to) + offset) = *(__global const MEM(DT) *)(from);
#endif

GRID __kernel void KERNEL(TENSOR(a), VALUE_PARAMETER, EACH_INDEX(PARAMETER) const Geometry g,
                          const ulong units, const ulong per_item, FAULT_ARGUMENT) {
  const ulong inner = g.size[0];
  FOR_UNITS(u, units, per_item) {
    __global char *a_row = a_base + a_offset + row_offset(u, &g, 0);
#ifndef FILL
    __global const char *b_row = b_base + b_offset + row_offset(u, &g, 1);
#endif
    EACH_INDEX(ROW_POINTER)
#ifdef ROW_INDEX
    long offset = 0;
    int exists = 1;
    {
      const ulong i = 0;
      EACH_INDEX(ADD_OFFSET)
    }
    if (!exists) continue;
#ifdef ROW_DENSE
#ifdef GET
    __global MEM(DT) *to = (__global MEM(DT) *)a_row;
    __global const MEM(DT) *from = (__global const MEM(DT) *)(b_row + offset);
#else
    __global MEM(DT) *to = (__global MEM(DT) *)(a_row + offset);
    __global const MEM(DT) *from = (__global const MEM(DT) *)b_row;
#endif
#ifdef TASKS
    ulong i = INNER_FIRST(inner);
    const ulong end = INNER_LAST(inner);
    for (; i + WIDTH <= end; i += WIDTH) {
      VSTORE_GLOBAL(MEM(DT), VLOAD_GLOBAL(MEM(DT), from, i), to, i);
    }
    for (; i < end; ++i) to[i] = from[i];
#elif defined(ROW_QUADS)
    const ulong quads = inner * sizeof(MEM(DT)) / sizeof(uint4);
    FOR_INNER(i, quads) ((__global uint4 *)to)[i] = ((__global const uint4 *)from)[i];
#else
    FOR_INNER(i, inner) to[i] = from[i];
#endif
#else
    FOR_INNER(i, inner) MOVE(a_row + (long)i * g.stride[0], b_row + (long)i * g.stride[NDIM])
#endif
#else
    FOR_INNER(i, inner) {
      long offset = 0;
      int exists = 1;
      EACH_INDEX(ADD_OFFSET)
      if (exists) MOVE(a_row + (long)i * g.stride[0], b_row + (long)i * g.stride[NDIM])
    }
#endif
  }
}
