// Norms of the tensors of a list, in two launches.
//   STEP(acc, a), MERGE(x, y), FINISH(x): the norm as a reduction whose initial value is 0
//   GROUP: work-items of a group
// norm_chunks: a partial result for each chunk. Grid: foreach.clh.
// norm_tensors: the tensors' results, into list 1. Grid: a work-group for each tensor.
#include "foreach.clh"

#ifdef TASKS
#define SCRATCH
static inline T all_lanes(const V value) {
  T lane[WIDTH];
  CAT(vstore, WIDTH)(value, 0, lane);
  T result = lane[0];
  for (int l = 1; l < WIDTH; ++l) result = MERGE(result, lane[l]);
  return result;
}
#define ALL(value) all_lanes(value)
#define IS_FIRST 1
#else
#define SCRATCH __local T scratch[GROUP];
// Merges the values of the group's work-items. A kernel may call it only once: there is no barrier
// after it.
ALWAYS_INLINE T all_items(const T value, __local T *scratch) {
  const uint item = get_local_id(0);
  scratch[item] = value;
  for (uint half_size = GROUP / 2; half_size > 0; half_size /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < half_size) scratch[item] = MERGE(scratch[item], scratch[item + half_size]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return scratch[0];
}
#define ALL(value) all_items(value, scratch)
#define IS_FIRST (get_local_id(0) == 0)
#endif

#define APPLY(READ, WRITE) READ(0, a) acc = STEP(acc, a);

CHUNKED __kernel void norm_chunks(TABLE_PARAMS, TENSOR(partial)) {
  OPEN_TABLE
  SCRATCH
  FOR_CHUNKS(k) {
    FIND_CHUNK(k)
    POINTER(0)
    V acc = C(0);
    FOR_ELEMENTS(APPLY)
    const T result = ALL(acc);
    if (IS_FIRST) PTR(T, partial)[k] = result;
  }
}

CHUNKED __kernel void norm_tensors(TABLE_PARAMS, CTENSOR(partial)) {
  OPEN_TABLE
  SCRATCH
  const uint t = group_id(0);
#ifdef TASKS
  uint k = t > 0 ? table.end[t - 1] : 0;
  const uint end = table.end[t];
  const ulong place = table.place[TENSORS + t];
#else
  uint k = 0, end = table.end[0];
  ulong place = table.place[TENSORS];
#pragma unroll
  for (int i = 1; i < TENSORS; ++i) {
    k = i == t ? table.end[i - 1] : k;
    end = i == t ? table.end[i] : end;
    place = i == t ? table.place[TENSORS + i] : place;
  }
#endif
  T acc = 0;
  for (k += get_local_id(0); k < end; k += get_local_size(0))
    acc = MERGE(acc, CPTR(T, partial)[k]);
#ifndef TASKS
  acc = ALL(acc);
#endif
  if (IS_FIRST) STORE(DT1, (__global MEM(DT1) *)locate(place, BUFFER_NAMES), 0, FINISH(acc));
}
