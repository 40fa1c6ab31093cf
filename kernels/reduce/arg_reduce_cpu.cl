// arg_reduce.clh by vectors, CPU family. POSITION: an integer type of T's size.
//   arg_rows     the reduced dimension is contiguous. A task takes `per_task` outputs of a part.
//                Grid: tasks, parts
//   arg_columns  kept dimension 0 is contiguous. A task takes `block` adjacent outputs of a part,
//                at most WIDTH * COLUMNS and a multiple of WIDTH. Grid: blocks, kept rows, parts
#include "arg_reduce.clh"

#define P VEC(POSITION)
#define UNROLL 2

// Updates the best element of each lane. Keeps the first of equal elements, and a NaN.
#define UPDATE(best, at, a, now)                                              \
  {                                                                           \
    const P take = (BETTER(a, best) | IS_NAN(a)) & ((best) == (best));        \
    best = take ? (a) : (best);                                               \
    at = take ? (now) : (at);                                                 \
  }
#define LOAD_ROW(p, i) CONVERT(T, LOADV(IN, (__global const MEM(IN) *)(p), i))

static inline P lane_numbers(void) {
  POSITION lane[WIDTH];
  for (int l = 0; l < WIDTH; ++l) lane[l] = (POSITION)l;
  return CAT(vload, WIDTH)(0, lane);
}

TASK __kernel void arg_rows(CTENSOR(in), TENSOR(indices) VALUES_PARAM, const Shape s,
                            const ulong per_task) {
  const ulong part = get_global_id(1);
  const ulong last = min((get_global_id(0) + 1) * per_task, s.outputs);
  const ulong step = UNROLL * WIDTH;
  ulong from, to;
  part_range(&s, part, &from, &to);
  for (ulong n = get_global_id(0) * per_task; n < last; ++n) {
    __global const char *p = in_base + in_offset + kept_offset(n, &s, 0);
    ulong i = from;
    Best best;
    if (to - from < step) {
      best_of_run(&best, p, sizeof(MEM(IN)), from, to);
      i = to;
    } else {
      V value[UNROLL];
      P at[UNROLL], now[UNROLL];
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        value[u] = LOAD_ROW(p, i + u * WIDTH);
        at[u] = now[u] = lane_numbers() + (POSITION)(u * WIDTH);
      }
      for (i += step; i + step <= to; i += step) {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
          const V a = LOAD_ROW(p, i + u * WIDTH);
          now[u] += (POSITION)(UNROLL * WIDTH);
          UPDATE(value[u], at[u], a, now[u])
        }
      }
      T values[UNROLL * WIDTH];
      POSITION positions[UNROLL * WIDTH];
      for (int u = 0; u < UNROLL; ++u) {
        CAT(vstore, WIDTH)(value[u], u, values);
        CAT(vstore, WIDTH)(at[u], u, positions);
      }
      best.value = values[0];
      best.position = from + positions[0];
      for (int l = 1; l < UNROLL * WIDTH; ++l) {
        const Best next = {.value = values[l], .position = from + positions[l]};
        if (precedes(next, best)) best = next;
      }
      if (i < to) {
        Best tail;
        best_of_run(&tail, p, sizeof(MEM(IN)), i, to);
        if (precedes(tail, best)) best = tail;
      }
    }
    STORE_BEST(best, n, part);
  }
}

TASK __kernel void arg_columns(CTENSOR(in), TENSOR(indices) VALUES_PARAM, const Shape s,
                               const ulong block) {
  const ulong columns = s.kept_size[0], column = get_global_id(0) * block, part = get_global_id(2);
  const ulong first = get_global_id(1) * columns + column;  // index of the first output
  const ulong width = min(block, columns - column);
  const ulong vectors = width / WIDTH;
  __global const char *base = in_base + in_offset + kept_offset(first, &s, 0);
  const long stride = s.reduced_in[0];
  ulong from, to;
  part_range(&s, part, &from, &to);
  V value[COLUMNS];
  P at[COLUMNS];
  for (ulong c = 0; c < vectors; ++c) {
    value[c] = LOAD_ROW(base + (long)from * stride, c * WIDTH);
    at[c] = (P)(0);
  }
  for (ulong i = from + 1; i < to; ++i) {
    __global const char *p = base + (long)i * stride;
    const P now = (P)((POSITION)(i - from));
    for (ulong c = 0; c < vectors; ++c) {
      const V a = LOAD_ROW(p, c * WIDTH);
      UPDATE(value[c], at[c], a, now)
    }
  }
  for (ulong c = 0; c < vectors; ++c) {
    T values[WIDTH];
    POSITION positions[WIDTH];
    CAT(vstore, WIDTH)(value[c], 0, values);
    CAT(vstore, WIDTH)(at[c], 0, positions);
    for (int l = 0; l < WIDTH; ++l) {
      const Best best = {.value = values[l], .position = from + positions[l]};
      STORE_BEST(best, first + c * WIDTH + l, part);
    }
  }
  for (ulong l = vectors * WIDTH; l < width; ++l) {
    Best best;
    best_of_run(&best, base + l * sizeof(MEM(IN)), stride, from, to);
    STORE_BEST(best, first + l, part);
  }
}
