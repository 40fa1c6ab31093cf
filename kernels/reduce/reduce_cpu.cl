// Reduction kernels of the CPU family (reduce.clh).
//   reduce_rows: reduced dimension 0 is the fastest; IN_ONE where it is contiguous.
//     A task takes `per_task` outputs of one part. Grid: tasks, parts.
//   reduce_columns: kept dimension 0 is contiguous; a task takes `block` adjacent outputs of one
//     part, at most WIDTH * COLUMNS and a multiple of WIDTH. Grid: blocks, kept rows, parts.
// The reduced elements are processed in rows of reduced dimension 0. A part is a range of rows, or
// a range of elements if there is only one row.
#include "reduce.clh"
#include "lanes.clh"

#define UNROLL 4

static inline V lane_numbers(void) {
  T lane[WIDTH];
  for (int l = 0; l < WIDTH; ++l) lane[l] = (T)l;
  return CAT(vload, WIDTH)(0, lane);
}

static inline T merge_lanes(const V acc) {
  T lane[WIDTH];
  CAT(vstore, WIDTH)(acc, 0, lane);
  FOLD_LANES(lane, MERGE)
  return lane[0];
}

#define ELEMENT_AT(p, stride) CAT(convert_, T)(LOAD(IN, (__global const MEM(IN) *)(p), 0))

static inline V load_lanes(__global const char *p, const long stride, const int count) {
  T lane[WIDTH];
  for (int l = 0; l < WIDTH; ++l) lane[l] = l < count ? ELEMENT_AT(p + l * stride, 0) : (T)0;
  return CAT(vload, WIDTH)(0, lane);
}

#ifdef IN_ONE
#define LOAD_VECTOR(p, i) CONVERT(T, LOADV(IN, (__global const MEM(IN) *)(p), i))
#else
#define LOAD_VECTOR(p, i) load_lanes((p) + (i) * stride, stride, WIDTH)
#endif

#define COLUMN_VECTOR(p, c) CONVERT(T, LOADV(IN, (__global const MEM(IN) *)(p), (c)*WIDTH))

#define JOIN_ACCUMULATORS                                                     \
  {                                                                           \
    const V left = MERGE(acc[0], acc[1]), right = MERGE(acc[2], acc[3]);      \
    const V joined = MERGE(left, right);                                      \
    total = MERGE(total, joined);                                             \
    acc[0] = acc[1] = acc[2] = acc[3] = (V)(INIT);                            \
  }

TASK __kernel void reduce_rows(CTENSOR(in), TENSOR(out), const Shape s, const ulong per_task) {
  const ulong part = get_global_id(1);
  const long stride = s.reduced_in[0];
  const ulong row_size = s.reduced_size[0], rows = s.elements / row_size;
  // The range of this part, in rows, or in the elements of the only row.
  const ulong whole = rows > 1 ? rows : row_size;
  ulong share = DIVIDE_UP(whole, s.parts);
  if (rows == 1) share = ROUND_UP(share, WIDTH);
  const ulong from = min(part * share, whole), to = min(from + share, whole);
  const V lanes = lane_numbers();
  const ulong series = series_of((to - from) * (rows > 1 ? row_size : 1) / (UNROLL * WIDTH));
  const ulong last = min((get_global_id(0) + 1) * per_task, s.outputs);
  for (ulong n = get_global_id(0) * per_task; n < last; ++n) {
    __global const char *base = in_base + in_offset + kept_offset(n, &s, 0);
    V acc[UNROLL], total = (V)(INIT);
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) acc[u] = (V)(INIT);
    ulong taken = 0;  // vectors that an accumulator takes
    for (ulong row = rows > 1 ? from : 0; row < (rows > 1 ? to : 1); ++row) {
      const ulong start = rows > 1 ? 0 : from;
      const long size = (long)((rows > 1 ? row_size : to) - start);
      __global const char *p = base + reduced_offset(row, &s, 1) + (long)start * stride;
      long i = 0;
      for (;;) {
        if (taken >= series) {
          JOIN_ACCUMULATORS
          taken = 0;
        }
        const long end = min(size, i + (long)(series - taken) * UNROLL * WIDTH);
        taken += (end - i) / (UNROLL * WIDTH) + 1;
        for (; i + UNROLL * WIDTH <= end; i += UNROLL * WIDTH) {
#pragma unroll  // unrolled: else PoCL keeps the array in memory
          for (int u = 0; u < UNROLL; ++u) {
            const V a = LOAD_VECTOR(p, i + u * WIDTH);
            acc[u] = STEP(acc[u], a);
          }
        }
        if (end == size) break;
      }
      for (; i + WIDTH <= size; i += WIDTH) {
        const V a = LOAD_VECTOR(p, i);
        acc[0] = STEP(acc[0], a);
      }
      if (i < size) {
#ifdef IN_ONE
        if (size >= WIDTH) {  // the last vector overlaps the one before: mask those lanes
          const V a = LOAD_VECTOR(p, size - WIDTH);
          const V next = STEP(acc[1], a);
          acc[1] = lanes < C(i - (size - WIDTH)) ? acc[1] : next;
          continue;
        }
#endif
        const V a = load_lanes(p + i * stride, stride, (int)(size - i));
        const V next = STEP(acc[0], a);
        acc[0] = lanes < C(size - i) ? next : acc[0];
      }
    }
    JOIN_ACCUMULATORS
    const T result = merge_lanes(total);
    const ulong count = s.count;
    STORE_RESULT(output_of(out_base + out_offset, n, part, &s), result);
  }
}

TASK __kernel void reduce_columns(CTENSOR(in), TENSOR(out), const Shape s, const ulong block) {
  const ulong columns = s.kept_size[0], column = get_global_id(0) * block;
  const ulong kept_row = get_global_id(1), part = get_global_id(2);
  ulong from, to;
  part_range(&s, part, &from, &to);
  const ulong width = min(block, columns - column);
  const size_t vectors = width / WIDTH;
  const int tail = (int)(width - vectors * WIDTH);
  const ulong first = kept_row * columns + column;  // index of the first output
  __global const char *base = in_base + in_offset + kept_offset(first, &s, 0);
  const long stride = s.reduced_in[0];
  // The accumulators stay in the first level cache. Several rows are added at a time.
  V acc[COLUMNS], total[COLUMNS];
  for (size_t c = 0; c <= vectors && c < COLUMNS; ++c) acc[c] = total[c] = (V)(INIT);
  const ulong series = series_of(to - from);
  ulong taken = 0;  // rows that the accumulators take
  for (ulong n = from; n < to;) {
    if (taken >= series) {
      for (size_t c = 0; c * WIDTH < width; ++c) {
        total[c] = MERGE(total[c], acc[c]);
        acc[c] = (V)(INIT);
      }
      taken = 0;
    }
    // Goes along reduced dimension 0 to its end.
    const ulong at = n % s.reduced_size[0];
    const ulong run = min(min(s.reduced_size[0] - at, to - n), series - taken);
    taken += run;
    __global const char *p = base + reduced_offset(n, &s, 0);
    ulong i = 0;
    for (; i + UNROLL <= run; i += UNROLL, p += UNROLL * stride) {
      for (size_t c = 0; c < vectors; ++c) {
        V sum = acc[c];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
          const V a = COLUMN_VECTOR(p + u * stride, c);
          sum = STEP(sum, a);
        }
        acc[c] = sum;
      }
    }
    for (__global const char *q = p; i < run; ++i, q += stride) {
      for (size_t c = 0; c < vectors; ++c) {
        const V a = COLUMN_VECTOR(q, c);
        acc[c] = STEP(acc[c], a);
      }
    }
    if (tail) {
      p = base + reduced_offset(n, &s, 0) + vectors * WIDTH * sizeof(MEM(IN));
      for (i = 0; i < run; ++i, p += stride) {
        const V a = load_lanes(p, sizeof(MEM(IN)), tail);
        acc[vectors] = STEP(acc[vectors], a);
      }
    }
    n += run;
  }
  const ulong count = s.count;
  for (size_t c = 0; c * WIDTH < width; ++c) {
    T lane[WIDTH];
    CAT(vstore, WIDTH)(MERGE(total[c], acc[c]), 0, lane);
    for (int l = 0; l < WIDTH && c * WIDTH + l < width; ++l)
      STORE_RESULT(output_of(out_base + out_offset, first + c * WIDTH + l, part, &s), lane[l]);
  }
}
