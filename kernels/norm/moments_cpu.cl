// Moments (moments.clh) in the CPU family.
//   moments_rows (inner == 1): a task takes `per_task` rows of one part. Grid: tasks, parts.
//   moments_columns: a task takes WIDTH * COLUMNS adjacent outputs of one part.
//     Grid: column blocks, outer, parts.
#include "row_moments.clh"

#define CHUNK_ROWS 16  // elements of a column that are added up together
#define AT(p, i) CONVERT(T, LOADV(IN, p, i))

TASK __kernel void moments_rows(CTENSOR(in), TENSOR(work), const ulong outer, const ulong size,
                                const ulong inner, const ulong parts, const ulong per_task) {
  const ulong part = get_global_id(1);
  PART_RANGE
  const ulong last = min((get_global_id(0) + 1) * per_task, outer);
  for (ulong row = get_global_id(0) * per_task; row < last; ++row) {
    T mean, m2;
    row_moments(CPTR(MEM(IN), in) + row * size, from, to, &mean, &m2);
    PTR(T, work)[part * outer + row] = mean;
    PTR(T, work)[(parts + part) * outer + row] = m2;
  }
}

#define FOR_COLUMNS(c) for (int c = 0; c < vectors; ++c)
#define TAKE(value, i)                                                                     \
  V value;                                                                                 \
  if ((c + 1) * WIDTH <= width) value = AT(x, (i) * inner + c * WIDTH);                    \
  else LOAD_SOME(IN, value, x, (i) * inner + c * WIDTH, width - c * WIDTH, 0)

TASK __kernel void moments_columns(CTENSOR(in), TENSOR(work), const ulong outer, const ulong size,
                                   const ulong inner, const ulong parts) {
  const ulong column = get_global_id(0) * (WIDTH * COLUMNS), row = get_global_id(1);
  const ulong part = get_global_id(2);
  PART_RANGE
  const int width = (int)min((ulong)(WIDTH * COLUMNS), inner - column);
  const int vectors = DIVIDE_UP(width, WIDTH);
  __global const MEM(IN) *x = CPTR(MEM(IN), in) + row * size * inner + column;
  V mean[COLUMNS], m2[COLUMNS], m[COLUMNS], q[COLUMNS];
  for (int c = 0; c < COLUMNS; ++c) mean[c] = m2[c] = (V)((T)0);
  T done = 0;
  for (ulong start = from; start < to; start += CHUNK_ROWS) {
    const ulong end = min(start + CHUNK_ROWS, to);
    const T n = (T)(end - start);
    for (int c = 0; c < COLUMNS; ++c) m[c] = q[c] = (V)((T)0);
    for (ulong i = start; i < end; ++i) FOR_COLUMNS(c) {
        TAKE(v, i)
        m[c] += v;
      }
    FOR_COLUMNS(c) m[c] /= n;
    for (ulong i = start; i < end; ++i) FOR_COLUMNS(c) {
        TAKE(v, i)
        const V d = v - m[c];
        q[c] += d * d;
      }
    FOR_COLUMNS(c) {
      T count = done;
      JOIN_MOMENTS(V, count, mean[c], m2[c], n, m[c], q[c])
    }
    done += n;
  }
  const ulong outputs = outer * inner, first = row * inner + column;
  FOR_COLUMNS(c) {
    T lane[WIDTH], deviation[WIDTH];
    CAT(vstore, WIDTH)(mean[c], 0, lane);
    CAT(vstore, WIDTH)(m2[c], 0, deviation);
    for (int l = 0; l < WIDTH && c * WIDTH + l < width; ++l) {
      const ulong place = c * WIDTH + l, output = first + place;
      MOMENTS_IF_SUM_OVERFLOWED(i, from, to, lane[l], deviation[l], LOAD(IN, x, i * inner + place))
      PTR(T, work)[part * outputs + output] = lane[l];
      PTR(T, work)[(parts + part) * outputs + output] = deviation[l];
    }
  }
}
