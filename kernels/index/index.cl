// Elements found by index tensors, both families. Iteration i moves one element between operand 0
// (the result) and operand 1. One of them is `indexed`: to its offset are added, for each index
// tensor, the index times that tensor's step.
//   GET      result[i] = indexed[index[i]]; PUT: indexed[index[i]] = value[i]
//   COMBINE(x, y)  with PUT: the new element for the old element x and the value y. It is atomic
//   ONE_WRITER     unless one work-item writes each element; ONE_ITEM: all elements (grid.clh)
//   FILL     with PUT: the value is a number, and there is no operand 1
//   DT       element type; where nothing is computed, any type of the same size; BYTES: its size
//   NDIM     dimensions of the iteration, 0 the row; INDICES: index tensors, 1 to 8
//   INDEX0.. C types of the indices; WRAP: negative ones count from the end
//   ROW_INDEX the indices are the same along a row; ROW_DENSE: and rows are contiguous
#include "common.clh"
#include "types.clh"
#ifdef COMPUTE_IS_COMPLEX
#include "complex.clh"
#else
#include "math.clh"
#endif
#include "grid.clh"

#define OPERANDS (2 + INDICES)
typedef struct {
  ulong size[NDIM];
  long stride[OPERANDS * NDIM];  // bytes; operands 0 and 1, then the indices
  long bound[INDICES];
  long step[INDICES];  // bytes
} Geometry;

static inline long row_offset(ulong row, const Geometry *g, const int operand) {
  long offset = 0;
  for (int d = 1; d < NDIM; ++d) {
    const ulong next = row / g->size[d];
    offset += (long)(row - next * g->size[d]) * g->stride[operand * NDIM + d];
    row = next;
  }
  return offset;
}

#if INDICES == 1
#define EACH_INDEX(M) M(0)
#elif INDICES == 2
#define EACH_INDEX(M) M(0) M(1)
#elif INDICES == 3
#define EACH_INDEX(M) M(0) M(1) M(2)
#elif INDICES == 4
#define EACH_INDEX(M) M(0) M(1) M(2) M(3)
#elif INDICES == 5
#define EACH_INDEX(M) M(0) M(1) M(2) M(3) M(4)
#elif INDICES == 6
#define EACH_INDEX(M) M(0) M(1) M(2) M(3) M(4) M(5)
#elif INDICES == 7
#define EACH_INDEX(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6)
#else
#define EACH_INDEX(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
#endif

#define PARAMETER(k) CTENSOR(index##k),
#define ROW_POINTER(k)                    \
  __global const char *index##k##_row =   \
      index##k##_base + index##k##_offset + row_offset(u, &g, 2 + k);
// Adds the offset of index k for element i; `exists` becomes 0 if the index is out of range.
#define ADD_OFFSET(k)                                                                          \
  {                                                                                            \
    const long n =                                                                             \
        *(__global const INDEX##k *)(index##k##_row + (long)i * g.stride[(2 + k) * NDIM]);     \
    const long wrapped = WRAP && n < 0 ? n + g.bound[k] : n;                                   \
    if (wrapped < 0 || wrapped >= g.bound[k]) {                                                \
      report_fault(FAULT_FORWARD, n, g.bound[k]);                                              \
      exists = 0;                                                                              \
    }                                                                                          \
    offset += wrapped * g.step[k];                                                             \
  }

#if defined(COMBINE) && defined(ONE_WRITER)
static inline void combine(__global char *p, const T y) {
  __global MEM(DT) *element = (__global MEM(DT) *)p;
  const T x = *element;
  *element = COMBINE(x, y);
}
#elif defined(COMBINE)
#if BYTES == 8
#define ATOMIC_BYTES 8
#define BITS ulong
#else
#define ATOMIC_BYTES 4
#if BYTES == 4
#define BITS uint
#elif BYTES == 2
#define BITS ushort
#else
#define BITS uchar
#endif
#endif
#include "atomic_word.clh"

#if BYTES >= 4
#define VALUE_OF_BITS(bits) CAT(as_, VAL(DT))(bits)
#define BITS_OF_VALUE(bits, value) bits = CAT(as_, BITS)((VAL(DT))(value))
#else
#define VALUE_OF_BITS(bits) LOAD(DT, (const MEM(DT) *)&bits, 0)
#define BITS_OF_VALUE(bits, value) STORE(DT, (MEM(DT) *)&bits, 0, value)
#endif

// For an element of one or two bytes, the word that contains it is exchanged.
static inline void combine(__global char *p, const T y) {
  const size_t inside = (size_t)p & (sizeof(ATOMIC_WORD) - 1);
  __global volatile ATOMIC_WORD *word = (__global volatile ATOMIC_WORD *)(p - inside);
  const int shift = (int)inside * 8;
  const ATOMIC_WORD mask = (ATOMIC_WORD)((BITS)~(BITS)0) << shift;
  ATOMIC_WORD seen = LOOK_AT(word);
  for (;;) {
    BITS bits = (BITS)(seen >> shift);
    const T x = (T)VALUE_OF_BITS(bits);
    BITS_OF_VALUE(bits, COMBINE(x, y));
    const ATOMIC_WORD next = (seen & ~mask) | ((ATOMIC_WORD)bits << shift);
    const ATOMIC_WORD before = ATOMIC_EXCHANGE(word, seen, next);
    if (before == seen) return;
    seen = before;
  }
}
#endif

#ifdef FILL
#define VALUE_PARAMETER const T value
#define VALUE_AT(p) value
#else
#define VALUE_PARAMETER CTENSOR(b)
#define VALUE_AT(p) LOAD(DT, (__global const MEM(DT) *)(p), 0)
#endif
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
