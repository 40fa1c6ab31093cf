// Element-wise kernel of the CPU family (pointwise.clh): a task computes `per_task` segments of at
// most `segment` elements of a row, WIDTH elements at a time. Grid: tasks.
#include "pointwise.clh"

// WIDTH elements of an input from element i of the row on; of the last ones, `count` exist.
#define GATHER(dt, p, i, stride, count)                                               \
  T lane[WIDTH];                                                                      \
  for (int l = 0; l < WIDTH; ++l) lane[l] = l < (count) ? ELEMENT(dt, p, (i) + l, stride) : (T)0; \
  value = VLOAD(lane, 0);

#define FULL_ONE(k, x) \
  const V x = CONVERT_ALL(IN##k, LOADV(IN##k, (__global const MEM(IN##k) *)x##_row, i));
#define PART_ONE(k, x)                                     \
  V x;                                                     \
  {                                                        \
    V value;                                               \
    GATHER(IN##k, x##_row, i, (long)sizeof(MEM(IN##k)), count - i) \
    x = value;                                             \
  }
#define FULL_ANY(k, x)                                   \
  V x;                                                   \
  {                                                      \
    V value;                                             \
    GATHER(IN##k, x##_row, i, ROW_STRIDE(k + 1), WIDTH)  \
    x = value;                                           \
  }
#define PART_ANY(k, x)                                      \
  V x;                                                      \
  {                                                         \
    V value;                                                \
    GATHER(IN##k, x##_row, i, ROW_STRIDE(k + 1), count - i) \
    x = value;                                              \
  }

// Where the row of an input begins, and its element when it has only one.
#define ROW_POINTER(k, x, start)                 \
  __global const char *x##_row =                 \
      x##_base + x##_offset + ROW_OFFSET(k + 1) + \
      (long)(start) * (STEP##k == STEP_ONE ? (long)sizeof(MEM(IN##k)) : ROW_STRIDE(k + 1));
#define ROW_ELEMENT(k, x)                                                       \
  const V x = (V)(ELEMENT(IN##k, x##_base + x##_offset + ROW_OFFSET(k + 1), 0, 0));

#if INPUTS > 0
#if STEP0 == STEP_VALUE
#define ROW0 const V a = (V)(a_value);
#define FULL0
#define PART0
#elif STEP0 == STEP_ZERO
#define ROW0 ROW_ELEMENT(0, a)
#define FULL0
#define PART0
#elif STEP0 == STEP_ONE
#define ROW0 ROW_POINTER(0, a, start)
#define FULL0 FULL_ONE(0, a)
#define PART0 PART_ONE(0, a)
#else
#define ROW0 ROW_POINTER(0, a, start)
#define FULL0 FULL_ANY(0, a)
#define PART0 PART_ANY(0, a)
#endif
#else
#define ROW0
#define FULL0
#define PART0
#endif
#if INPUTS > 1
#if STEP1 == STEP_VALUE
#define ROW1 const V b = (V)(b_value);
#define FULL1
#define PART1
#elif STEP1 == STEP_ZERO
#define ROW1 ROW_ELEMENT(1, b)
#define FULL1
#define PART1
#elif STEP1 == STEP_ONE
#define ROW1 ROW_POINTER(1, b, start)
#define FULL1 FULL_ONE(1, b)
#define PART1 PART_ONE(1, b)
#else
#define ROW1 ROW_POINTER(1, b, start)
#define FULL1 FULL_ANY(1, b)
#define PART1 PART_ANY(1, b)
#endif
#else
#define ROW1
#define FULL1
#define PART1
#endif
#if INPUTS > 2
#if STEP2 == STEP_VALUE
#define ROW2 const V c = (V)(c_value);
#define FULL2
#define PART2
#elif STEP2 == STEP_ZERO
#define ROW2 ROW_ELEMENT(2, c)
#define FULL2
#define PART2
#elif STEP2 == STEP_ONE
#define ROW2 ROW_POINTER(2, c, start)
#define FULL2 FULL_ONE(2, c)
#define PART2 PART_ONE(2, c)
#else
#define ROW2 ROW_POINTER(2, c, start)
#define FULL2 FULL_ANY(2, c)
#define PART2 PART_ANY(2, c)
#endif
#else
#define ROW2
#define FULL2
#define PART2
#endif
// The fourth and fifth operand occur in few operators: one form serves them all.
#if INPUTS > 3
#define ROW3 ROW_POINTER(3, d, start)
#define FULL3 FULL_ANY(3, d)
#define PART3 PART_ANY(3, d)
#else
#define ROW3
#define FULL3
#define PART3
#endif
#if INPUTS > 4
#define ROW4 ROW_POINTER(4, e, start)
#define FULL4 FULL_ANY(4, e)
#define PART4 PART_ANY(4, e)
#else
#define ROW4
#define FULL4
#define PART4
#endif

TASK __kernel void KERNEL(PARAMS, const Geometry g, const ulong inner, const ulong rows,
                          const ulong segment, const ulong per_task) {
  const ulong segments = (inner + segment - 1) / segment;  // of a row
  const ulong first = (ulong)get_global_id(0) * per_task;
  const ulong last = min(first + per_task, rows * segments);
  for (ulong s = first; s < last; ++s) {
    const ulong row = s / segments;
    const ulong start = (s - row * segments) * segment;
    const long count = (long)min(segment, inner - start);
    const long out_stride = STEP_OUT == STEP_ONE ? (long)sizeof(MEM(OUT)) : ROW_STRIDE(0);
    __global char *out_row = out_base + out_offset + ROW_OFFSET(0) + (long)start * out_stride;
    ROW0 ROW1 ROW2 ROW3 ROW4
    long i = 0;
    for (; i + WIDTH <= count; i += WIDTH) {
      FULL0 FULL1 FULL2 FULL3 FULL4
#if STEP_OUT == STEP_ONE
      STOREV(OUT, (__global MEM(OUT) *)out_row, i, EXPR);
#else
      VAL(OUT) lane[WIDTH];
      VSTORE(VALUE(OUT, EXPR), lane, 0);
      for (int l = 0; l < WIDTH; ++l)
        STORE(OUT, (__global MEM(OUT) *)(out_row + (i + l) * out_stride), 0, lane[l]);
#endif
    }
    if (i < count) {
      PART0 PART1 PART2 PART3 PART4
      VAL(OUT) lane[WIDTH];
      VSTORE(VALUE(OUT, EXPR), lane, 0);
      for (int l = 0; l < WIDTH && i + l < count; ++l)
        STORE(OUT, (__global MEM(OUT) *)(out_row + (i + l) * out_stride), 0, lane[l]);
    }
  }
}
