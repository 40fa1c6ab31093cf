// Element-wise kernel of the CPU family (pointwise.clh): a task computes `per_task` segments of at
// most `segment` elements of a row, WIDTH elements at a time. Grid: tasks.
#include "pointwise.clh"

// Loads up to WIDTH elements of an input from element i of the row on; only `count` of them exist.
#define GATHER(dt, p, i, stride, count)                                               \
  T lane[WIDTH];                                                                      \
  for (int l = 0; l < WIDTH; ++l) lane[l] = l < (count) ? ELEMENT(dt, p, (i) + l, stride) : (T)0; \
  value = VLOAD(lane, 0);

#define FULL_ONE(k, x) \
  const V x = FIT##k(CONVERT_ALL(IN##k, LOADV(IN##k, (__global const MEM(IN##k) *)x##_row, i)));
#define PART_ONE(k, x)                                     \
  V x;                                                     \
  {                                                        \
    V value;                                               \
    GATHER(IN##k, x##_row, i, (long)sizeof(MEM(IN##k)), count - i) \
    x = FIT##k(value);                                     \
  }
#define FULL_ANY(k, x)                                   \
  V x;                                                   \
  {                                                      \
    V value;                                             \
    GATHER(IN##k, x##_row, i, ROW_STRIDE(k + 1), WIDTH)  \
    x = FIT##k(value);                                   \
  }
#define PART_ANY(k, x)                                      \
  V x;                                                      \
  {                                                         \
    V value;                                                \
    GATHER(IN##k, x##_row, i, ROW_STRIDE(k + 1), count - i) \
    x = FIT##k(value);                                      \
  }

// The lanes of a vector in reverse, for an output that is contiguous backwards.
#define BACK_2 s10
#define BACK_4 s3210
#define BACK_8 s76543210
#define BACK_16 sfedcba9876543210

// The start of an input's row, and the element of an input that has one element for the whole row.
#define ROW_POINTER(k, x, start)                 \
  __global const char *x##_row =                 \
      x##_base + x##_offset + ROW_OFFSET(k + 1) + \
      (long)(start) * (STEP##k == STEP_ONE ? (long)sizeof(MEM(IN##k)) : ROW_STRIDE(k + 1));
#define ROW_ELEMENT(k, x)                                                       \
  const V x = FIT##k((V)(ELEMENT(IN##k, x##_base + x##_offset + ROW_OFFSET(k + 1), 0, 0)));

// For each kind of step: the code once per row, for WIDTH elements, and for the tail.
#define ROW_0(k, x) ROW_ELEMENT(k, x)
#define ROW_1(k, x) ROW_POINTER(k, x, start)
#define ROW_2(k, x) ROW_POINTER(k, x, start)
#define ROW_3(k, x) const V x = (V)(x##_value);
#define ROW_4(k, x)
#define FULL_0(k, x)
#define FULL_1(k, x) FULL_ONE(k, x)
#define FULL_2(k, x) FULL_ANY(k, x)
#define FULL_3(k, x)
#define FULL_4(k, x)
#define PART_0(k, x)
#define PART_1(k, x) PART_ONE(k, x)
#define PART_2(k, x) PART_ANY(k, x)
#define PART_3(k, x)
#define PART_4(k, x)

// STREAM_OUT: vectors of the output are aligned, and it is larger than the caches. Stores past the
// caches evict nothing, and a cache line that is written whole is not read first.
#if defined(STREAM_OUT) && defined(__has_builtin)
#if __has_builtin(__builtin_nontemporal_store)
#define STORE_PAST_CACHE(value, p) \
  __builtin_nontemporal_store(VALUE(OUT, value), (__global VEC(MEM(OUT)) *)(p))
#endif
#endif
#ifndef STORE_PAST_CACHE
#define STORE_PAST_CACHE(value, p) STOREV(OUT, p, 0, value)
#endif

TASK __kernel void KERNEL(PARAMS, const Geometry g, const ulong inner, const ulong rows,
                          const ulong segment, const ulong per_task FAULT_PARAM) {
  const ulong segments = DIVIDE_UP(inner, segment);  // segments per row
  const ulong first = (ulong)get_global_id(0) * per_task;
  const ulong last = min(first + per_task, rows * segments);
  for (ulong s = first; s < last; ++s) {
    const ulong row = s / segments;
    const ulong start = (s - row * segments) * segment;
    const long count = (long)min(segment, inner - start);
    const long out_stride = STEP_OUT == STEP_ONE ? (long)sizeof(MEM(OUT)) : ROW_STRIDE(0);
    __global char *out_row = out_base + out_offset + ROW_OFFSET(0) + (long)start * out_stride;
    EACH_INPUT(ROW_)
    long i = 0;
    for (; i + WIDTH <= count; i += WIDTH) {
      EACH_INPUT(FULL_)
      CHECK_INPUTS(WIDTH)
#ifdef STREAM_OUT
      STORE_PAST_CACHE(EXPR, (__global MEM(OUT) *)out_row + i);
#elif STEP_OUT == STEP_ONE
      STOREV(OUT, (__global MEM(OUT) *)out_row, i, EXPR);
#elif STEP_OUT == STEP_BACK
      const V value = EXPR;
      STOREV(OUT, (__global MEM(OUT) *)out_row - (i + WIDTH - 1), 0, value.CAT(BACK_, WIDTH));
#else
      VAL(OUT) lane[WIDTH];
      VSTORE(VALUE(OUT, EXPR), lane, 0);
      for (int l = 0; l < WIDTH; ++l)
        STORE_VALUE(OUT, (__global MEM(OUT) *)(out_row + (i + l) * out_stride), 0, lane[l]);
#endif
    }
    if (i < count) {
      EACH_INPUT(PART_)
      CHECK_INPUTS(count - i)
      VAL(OUT) lane[WIDTH];
      VSTORE(VALUE(OUT, EXPR), lane, 0);
      for (int l = 0; l < WIDTH && i + l < count; ++l)
        STORE_VALUE(OUT, (__global MEM(OUT) *)(out_row + (i + l) * out_stride), 0, lane[l]);
    }
  }
}
