// The k elements with the least keys (sort_key.clh) of rows of `size`, for k much less than size,
// in the CPU family. Among equal keys the first elements win. topk_chunk: a task keeps the k best
// of its chunk of a row. Grid: chunks, rows. topk_finish: a task takes the best of a row's chunks,
// and puts them in order. Grid: 1, rows. Candidates: [rows][chunks][k] of keys, and of positions in
// the row.
//
// A task keeps its k candidates in a heap with the worst one on top. Most elements are not better
// than the worst candidate, so a block of elements is skipped if its best one is not.
#include "sort_key.clh"

#define BLOCK 64  // elements whose best is compared with the worst candidate

// The candidates are a heap with the worst one on top.
typedef struct {
  __global BITS *key;
  __global uint *at;
  ulong size;
} Heap;

#define WORSE(key, at, other_key, other_at) COMES_BEFORE(other_key, other_at, key, at)

// Puts a candidate at position `hole` of the heap, or below.
static inline void sink(const Heap *heap, ulong hole, const BITS key, const uint at) {
  for (;;) {
    ulong child = 2 * hole + 1;
    if (child >= heap->size) break;
    if (child + 1 < heap->size && WORSE(heap->key[child + 1], heap->at[child + 1],
                                        heap->key[child], heap->at[child]))
      ++child;
    if (!WORSE(heap->key[child], heap->at[child], key, at)) break;
    heap->key[hole] = heap->key[child];
    heap->at[hole] = heap->at[child];
    hole = child;
  }
  heap->key[hole] = key;
  heap->at[hole] = at;
}

static inline void make_heap(const Heap *heap) {
  for (ulong i = heap->size / 2; i > 0; --i) sink(heap, i - 1, heap->key[i - 1], heap->at[i - 1]);
}

TASK __kernel void topk_chunk(CTENSOR(in), TENSOR(keys), TENSOR(positions), const ulong size,
                              const ulong k) {
  const ulong chunk = get_global_id(0), chunks = get_global_size(0), row = get_global_id(1);
  // The last chunk, too, has at least k elements.
  const ulong share = size / chunks, rest = size % chunks;
  const ulong from = chunk * share + min(chunk, rest), to = from + share + (chunk < rest);
  __global const BITS *x = CPTR(BITS, in) + row * size;
  const ulong first = (row * chunks + chunk) * k;
  const Heap heap = {PTR(BITS, keys) + first, PTR(uint, positions) + first, k};
  ulong i = from;
  for (; i < from + k; ++i) {
    heap.key[i - from] = key_of(x[i]);
    heap.at[i - from] = (uint)i;
  }
  make_heap(&heap);
  for (; i < to; i += BLOCK) {
    const ulong end = min(i + BLOCK, to);
    BITS best = (BITS)~(BITS)0;
    for (ulong j = i; j < end; ++j) best = min(best, key_of(x[j]));
    if (best >= heap.key[0]) continue;
    for (ulong j = i; j < end; ++j) {
      const BITS key = key_of(x[j]);
      if (key < heap.key[0]) sink(&heap, 0, key, (uint)j);
    }
  }
}

TASK __kernel void topk_finish(CTENSOR(in), TENSOR(keys), TENSOR(positions), TENSOR(values),
                               TENSOR(indices), const ulong size, const ulong k,
                               const ulong chunks) {
  const ulong row = get_global_id(1), first = row * chunks * k;
  Heap heap = {PTR(BITS, keys) + first, PTR(uint, positions) + first, k};
  for (ulong i = k; i < chunks * k; ++i) {
    const BITS key = heap.key[i];
    const uint at = heap.at[i];
    if (WORSE(heap.key[0], heap.at[0], key, at)) sink(&heap, 0, key, at);
  }
  __global const BITS *x = CPTR(BITS, in) + row * size;
  while (heap.size > 0) {
    const uint worst = heap.at[0];
    const ulong last = --heap.size;
    PTR(BITS, values)[row * k + last] = x[worst];
    PTR(long, indices)[row * k + last] = worst;
    if (last > 0) sink(&heap, 0, heap.key[last], heap.at[last]);
  }
}
