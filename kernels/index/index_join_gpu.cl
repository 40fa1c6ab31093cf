// Combines values with indexed elements by atomic exchanges, on GPUs. Each group first joins its
// values for the same element. So if all values go to one element, only one work-item of each group
// writes it. Otherwise every work-item would write it, and retry until all others are done.
//
//   targets of a group   5 8 5 5 9
//   exchanges            5: a + c + d, 8: b, 9: e
//
// Work-items whose targets have the same hash (slot) form a list: `head` is the last work-item, and
// `next` leads to earlier ones. The first work-item in a list with a target joins the values of the
// others.
//   GROUP     work-items of the group, in both dimensions; a power of two
// Other defines: index.clh. Grid (grid.clh): a work-item for each value.
#include "index.clh"

#define SLOTS (2 * GROUP)
#define END GROUP
#define NOWHERE LONG_MIN
#define SLOT(target) ((((uint)(target) ^ (uint)((target) >> 32)) * 2654435761u >> 16) % SLOTS)
#define COMBINED(x, y) VALUE(DT, COMBINE(x, y))

__kernel void KERNEL(TENSOR(a), VALUE_PARAMETER, EACH_INDEX(PARAMETER) const Geometry g,
                     const ulong units, const ulong per_item, FAULT_ARGUMENT) {
  __local uint head[SLOTS], next[GROUP];
  __local long targets[GROUP];
  __local T values[GROUP];
  const uint item = get_local_id(1) * get_local_size(0) + get_local_id(0);
  const ulong i = get_global_id(0), u = get_global_id(1);
  long target = NOWHERE;
  T x = 0;
  if (u < units && i < g.size[0]) {
    EACH_INDEX(ROW_POINTER)
    long offset = row_offset(u, &g, 0) + (long)i * g.stride[0];
    int exists = 1;
    EACH_INDEX(ADD_OFFSET)
    if (exists) {
      target = offset;
      x = VALUE_AT(b_base + b_offset + row_offset(u, &g, 1) + (long)i * g.stride[NDIM]);
    }
  }
  const uint slot = SLOT(target);
  head[item] = head[item + GROUP] = END;
  targets[item] = target;
  values[item] = x;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (target != NOWHERE) next[item] = atomic_xchg(&head[slot], item);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (target != NOWHERE) {
    uint other = head[slot];
    while (targets[other] != target) other = next[other];
    if (other == item) {
      while ((other = next[other]) != END)
        if (targets[other] == target) x = COMBINED(x, values[other]);
      combine(a_base + a_offset + target, x);
    }
  }
}
