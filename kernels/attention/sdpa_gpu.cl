// Attention of the GPU family: a work-group of SIDE by SIDE computes SIDE * RM queries (keys, for
// the gradients of keys and values) and loops over the keys in blocks of SIDE * CM. Work-item
// (x, y) has RM adjacent rows and CM adjacent columns of every tile, which it reads from local
// memory as vectors: one element at a time, reading would take longer than multiplying. Matrices
// pass through local memory in chunks of DEPTH.
//   SIDE  a power of two up to 16
//   RM    rows of a work-item, 2 or 4
// Defines and Problem: sdpa.clh. Grid: (SIDE * blocks of rows, SIDE * heads, batch).
#define WIDTH 1
#include "sdpa.clh"

#define ITEMS (SIDE * SIDE)
#define ROWS_OF_GROUP (SIDE * RM)
#define CM 4
#define BLOCK (SIDE * CM)
#define DEPTH (ITEMS < 16 ? ITEMS : 16)
#define DM DIVIDE_UP(D_MAX, SIDE)
// One more vector per row, so that adjacent rows begin in different banks.
#define A_LD (ROWS_OF_GROUP + RM)
#define B_LD (BLOCK + CM)
#define A_SIDE (SIDE + 1)
#define ROW_OF(i) (y * RM + (i))
#define COLUMN_OF(j) (x * CM + (j))
#define PRODUCT_CHUNK (DEPTH * (A_LD + B_LD))
#define SUM_CHUNK (DEPTH * SIDE * DM)
#define CHUNK (PRODUCT_CHUNK > SUM_CHUNK ? PRODUCT_CHUNK : SUM_CHUNK)

#define LOCAL_VECTORS __local __attribute__((aligned(16))) float
#define KERNEL __kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1))) void
#define FOR(i, n) _Pragma("unroll") for (int i = 0; i < n; ++i)
#define MATRIX_ARGUMENTS(x) __global const MEM(DT) *x, const long x##_stride, const int x##_count

#define ROWS CAT(float, RM)
ALWAYS_INLINE void read_rows(float rows[RM], const __local float *from) {
  const ROWS all = *(const __local ROWS *)from;
  rows[0] = all.s0;
  rows[1] = all.s1;
#if RM == 4
  rows[2] = all.s2;
  rows[3] = all.s3;
#endif
}

// tile = products of the rows of a and b, which have `size` elements.
ALWAYS_INLINE void multiply(float tile[RM][CM], __local float *chunk, MATRIX_ARGUMENTS(a),
                            MATRIX_ARGUMENTS(b), const int size) {
  const int x = get_local_id(0), y = get_local_id(1), item = y * SIDE + x;
  __local float *a_chunk = chunk, *b_chunk = chunk + DEPTH * A_LD;
  FOR(i, RM) FOR(j, CM) tile[i][j] = 0;
  for (int k0 = 0; k0 < size; k0 += DEPTH) {
    const int p = item % DEPTH;
    const bool exists = k0 + p < size;
    for (int row = item / DEPTH; row < ROWS_OF_GROUP; row += ITEMS / DEPTH)
      a_chunk[p * A_LD + row] =
          exists && row < a_count ? LOAD(DT, a, row * a_stride + k0 + p) : 0;
    for (int row = item / DEPTH; row < BLOCK; row += ITEMS / DEPTH)
      b_chunk[p * B_LD + row] =
          exists && row < b_count ? LOAD(DT, b, row * b_stride + k0 + p) : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    // Compilers load the operands of all unrolled steps first; with 16, Intel's GPUs spill.
    _Pragma("unroll 8") for (int k = 0; k < DEPTH; ++k) {
      float row[RM];
      read_rows(row, a_chunk + k * A_LD + ROW_OF(0));
      const float4 columns = *(const __local float4 *)(b_chunk + k * B_LD + COLUMN_OF(0));
      const float column[CM] = {columns.x, columns.y, columns.z, columns.w};
      FOR(i, RM) FOR(j, CM) tile[i][j] = mad(row[i], column[j], tile[i][j]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}

// sums += the rows of `a`, weighted by the work-group's weights, [BLOCK][A_LD].
ALWAYS_INLINE void add_weighted(float sums[RM][DM], __local float *chunk,
                                const __local float *weights, MATRIX_ARGUMENTS(a), const int size) {
  const int x = get_local_id(0), y = get_local_id(1), item = y * SIDE + x;
  for (int k0 = 0; k0 < a_count; k0 += DEPTH) {
    for (int e = item; e < SUM_CHUNK; e += ITEMS) {
      const int row = k0 + e / (SIDE * DM), column = e % (SIDE * DM);
      chunk[e] = row < a_count && column < size ? LOAD(DT, a, row * a_stride + column) : 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < DEPTH; ++k) {
      float factor[RM];
      read_rows(factor, weights + (k0 + k) * A_LD + ROW_OF(0));
      FOR(j, DM) {
        const float element = chunk[k * SIDE * DM + x + j * SIDE];
        FOR(i, RM) sums[i][j] = mad(factor[i], element, sums[i][j]);
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}

// Writes the tile to local memory for add_weighted(), whose barrier comes before the reads.
ALWAYS_INLINE void share(__local float *weights, const float tile[RM][CM]) {
  const int x = get_local_id(0), y = get_local_id(1);
  FOR(j, CM) {
    __local ROWS *to = (__local ROWS *)(weights + COLUMN_OF(j) * A_LD + ROW_OF(0));
#if RM == 4
    *to = (ROWS)(tile[0][j], tile[1][j], tile[2][j], tile[3][j]);
#else
    *to = (ROWS)(tile[0][j], tile[1][j]);
#endif
  }
}

static inline void store_rows(__global MEM(DT) *out, const long stride, const int count,
                              const int size, const float sums[RM][DM], const float factor[RM]) {
  const int x = get_local_id(0), y = get_local_id(1);
  FOR(i, RM) {
    const int row = ROW_OF(i);
    if (row >= count) continue;
    FOR(j, DM) {
      const int column = x + j * SIDE;
      if (column < size) STORE(DT, out, row * stride + column, sums[i][j] * factor[i]);
    }
  }
}

#ifdef DROPOUT
static inline float keep_factor(const ulong row_counter, const long key, const ulong seed,
                                const ulong threshold, const float scale) {
  const Words words = philox(row_counter + key / 4, seed);
  const int which = key % 4;
  const uint word =
      which == 0 ? words.w0 : which == 1 ? words.w1 : which == 2 ? words.w2 : words.w3;
  return word < threshold ? scale : 0.0f;
}
#define KEEP_FACTOR(query, key)                                                             \
  keep_factor(HEAD_COUNTER(batch, head) + (query) * COUNTERS_OF_ROW, key, problem.seed,     \
              problem.threshold, problem.keep_scale)
#endif

#ifdef HAS_BIAS
#define BIAS_AT(query, key) LOAD(DT, bias_matrix, (query) * BIAS_ROW + (key) * BIAS_COLUMN)
#else
#define BIAS_AT(query, key) 0
#endif
#ifdef CAUSAL
#define SEEN(query, key) ((query) < problem.queries && (key) < problem.keys && (key) <= (query))
#else
#define SEEN(query, key) ((query) < problem.queries && (key) < problem.keys)
#endif
#define SCORE(product, query, key) \
  (SEEN(query, key) ? (product) * problem.scale + BIAS_AT(query, key) : -INFINITY)

#ifdef KEYS_IN_ROWS

KERNEL attention_grad_key(TENSOR(grad_key), TENSOR(grad_value), CTENSOR(query), CTENSOR(key),
                          CTENSOR(value), BIAS_ARGUMENT CTENSOR(grad), CTENSOR(log_sum),
                          CTENSOR(delta), const Problem problem) {
  LOCAL_VECTORS chunk[CHUNK], weights[BLOCK * A_LD];
  const int x = get_local_id(0), y = get_local_id(1);
  const long batch = group_id(2), key_head = group_id(1);
  const long first = group_id(0) * ROWS_OF_GROUP;
  const int rows = (int)min((long)ROWS_OF_GROUP, problem.keys - first);
  __global const MEM(DT) *keys = MATRIX(KEY, key, batch, key_head) + first * ROW(KEY);
  __global const MEM(DT) *values = MATRIX(VALUE, value, batch, key_head) + first * ROW(VALUE);
  float key_sums[RM][DM], value_sums[RM][DM];
  FOR(i, RM) FOR(j, DM) key_sums[i][j] = value_sums[i][j] = 0;
#ifdef CAUSAL
  const long start = first;
#else
  const long start = 0;
#endif
  for (long head = key_head * problem.group; head < (key_head + 1) * problem.group; ++head) {
    BIAS_MATRIX(batch, head)
    const long row = (batch * problem.heads + head) * problem.queries;
    for (long q0 = start; q0 < problem.queries; q0 += BLOCK) {
      const int count = (int)min((long)BLOCK, problem.queries - q0);
      __global const MEM(DT) *queries = MATRIX(QUERY, query, batch, head) + q0 * ROW(QUERY);
      __global const MEM(DT) *grads = MATRIX(GRAD, grad, batch, head) + q0 * ROW(GRAD);
      float tile[RM][CM], slopes[RM][CM];
      multiply(tile, chunk, keys, ROW(KEY), rows, queries, ROW(QUERY), count, D);
      multiply(slopes, chunk, values, ROW(VALUE), rows, grads, ROW(GRAD), count, DV);
      FOR(j, CM) {
        const long q = q0 + COLUMN_OF(j);
        const bool exists = q < problem.queries;
        const float log_sum_of_row = exists ? CPTR(float, log_sum)[row + q] : INFINITY;
        const float delta_of_row = exists ? CPTR(float, delta)[row + q] : 0;
        FOR(i, RM) {
          const long k = first + ROW_OF(i);
          const float weight = exp(SCORE(tile[i][j], q, k) - log_sum_of_row);
#ifdef DROPOUT
          const float kept = KEEP_FACTOR(q, k);
#else
          const float kept = 1;
#endif
          slopes[i][j] = weight * (slopes[i][j] * kept - delta_of_row);
          tile[i][j] = weight * kept;
        }
      }
      share(weights, tile);
      add_weighted(value_sums, chunk, weights, grads, ROW(GRAD), count, DV);
      share(weights, slopes);
      add_weighted(key_sums, chunk, weights, queries, ROW(QUERY), count, D);
    }
  }
  float factor[RM];
  FOR(i, RM) factor[i] = 1;
  store_rows(OUT_MATRIX(GRAD_VALUE, grad_value, batch, key_head) + first * ROW(GRAD_VALUE),
             ROW(GRAD_VALUE), rows, DV, value_sums, factor);
  FOR(i, RM) factor[i] = problem.scale;
  store_rows(OUT_MATRIX(GRAD_KEY, grad_key, batch, key_head) + first * ROW(GRAD_KEY),
             ROW(GRAD_KEY), rows, D, key_sums, factor);
}

#else

#ifdef CAUSAL
#define LAST_KEY min(problem.keys, first + ROWS_OF_GROUP)
#else
#define LAST_KEY problem.keys
#endif

#define QUERY_BLOCK                                                                           \
  const int x = get_local_id(0), y = get_local_id(1);                                         \
  const long batch = group_id(2), head = group_id(1), key_head = head / problem.group; \
  const long first = group_id(0) * ROWS_OF_GROUP;                                         \
  const int rows = (int)min((long)ROWS_OF_GROUP, problem.queries - first);                    \
  const long row = (batch * problem.heads + head) * problem.queries + first;                  \
  const long last = LAST_KEY;                                                                 \
  BIAS_MATRIX(batch, head)                                                                    \
  __global const MEM(DT) *queries = MATRIX(QUERY, query, batch, head) + first * ROW(QUERY);   \
  float sums[RM][DM];                                                                         \
  FOR(i, RM) FOR(j, DM) sums[i][j] = 0;

#define KEY_BLOCK                                                                             \
  const int count = (int)min((long)BLOCK, last - k0);                                         \
  __global const MEM(DT) *keys = MATRIX(KEY, key, batch, key_head) + k0 * ROW(KEY);           \
  __global const MEM(DT) *values = MATRIX(VALUE, value, batch, key_head) + k0 * ROW(VALUE);

KERNEL attention_forward(TENSOR(out), TENSOR(log_sum), CTENSOR(query), CTENSOR(key), CTENSOR(value),
                         BIAS_ARGUMENT const Problem problem) {
  LOCAL_VECTORS chunk[CHUNK], weights[BLOCK * A_LD];
  __local float partial[ROWS_OF_GROUP * A_SIDE];
  QUERY_BLOCK
  float top[RM], total[RM];
  FOR(i, RM) {
    top[i] = -INFINITY;
    total[i] = 0;
  }
  for (long k0 = 0; k0 < last; k0 += BLOCK) {
    KEY_BLOCK
    float tile[RM][CM];
    multiply(tile, chunk, queries, ROW(QUERY), rows, keys, ROW(KEY), count, D);
    FOR(i, RM) {
      const long q = first + ROW_OF(i);
      float peak = top[i];
      FOR(j, CM) {
        tile[i][j] = SCORE(tile[i][j], q, k0 + COLUMN_OF(j));
        peak = tile[i][j] > peak ? tile[i][j] : peak;  // a NaN gets into the sum, not here
      }
      partial[ROW_OF(i) * A_SIDE + x] = peak;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    FOR(i, RM) {
      float peak = -INFINITY;
      for (int n = 0; n < SIDE; ++n) peak = fmax(peak, partial[ROW_OF(i) * A_SIDE + n]);
      const float base = peak == -INFINITY ? 0 : peak;
      const float factor = exp(top[i] - base);
      top[i] = peak;
      total[i] *= factor;
      FOR(j, DM) sums[i][j] *= factor;
      FOR(j, CM) {
        tile[i][j] = exp(tile[i][j] - base);
        total[i] += tile[i][j];
#ifdef DROPOUT
        tile[i][j] *= KEEP_FACTOR(first + ROW_OF(i), k0 + COLUMN_OF(j));
#endif
      }
    }
    share(weights, tile);
    add_weighted(sums, chunk, weights, values, ROW(VALUE), count, DV);
  }
  FOR(i, RM) partial[ROW_OF(i) * A_SIDE + x] = total[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  FOR(i, RM) {
    const int r = ROW_OF(i);
    float sum = 0;
    for (int n = 0; n < SIDE; ++n) sum += partial[r * A_SIDE + n];
    // A query with no visible key: its result is zero, and so are its weights in the backward pass.
    const bool empty = sum == 0;
    total[i] = empty ? 0 : 1 / sum;
    if (x == 0 && r < rows) PTR(float, log_sum)[row + r] = empty ? INFINITY : top[i] + log(sum);
  }
  store_rows(OUT_MATRIX(OUT, out, batch, head) + first * ROW(OUT), ROW(OUT), rows, DV, sums, total);
}

KERNEL attention_grad_query(TENSOR(grad_query), CTENSOR(query), CTENSOR(key), CTENSOR(value),
                            BIAS_ARGUMENT CTENSOR(grad), CTENSOR(log_sum), CTENSOR(delta),
                            const Problem problem) {
  LOCAL_VECTORS chunk[CHUNK], weights[BLOCK * A_LD];
  QUERY_BLOCK
  __global const MEM(DT) *grads = MATRIX(GRAD, grad, batch, head) + first * ROW(GRAD);
  float factor[RM];
  for (long k0 = 0; k0 < last; k0 += BLOCK) {
    KEY_BLOCK
    float tile[RM][CM], slopes[RM][CM];
    multiply(tile, chunk, queries, ROW(QUERY), rows, keys, ROW(KEY), count, D);
    multiply(slopes, chunk, grads, ROW(GRAD), rows, values, ROW(VALUE), count, DV);
    FOR(i, RM) {
      const int r = ROW_OF(i);
      const float log_sum_of_row = r < rows ? CPTR(float, log_sum)[row + r] : INFINITY;
      const float delta_of_row = r < rows ? CPTR(float, delta)[row + r] : 0;
      FOR(j, CM) {
        const long k = k0 + COLUMN_OF(j);
        const float weight = exp(SCORE(tile[i][j], first + r, k) - log_sum_of_row);
#ifdef DROPOUT
        slopes[i][j] *= KEEP_FACTOR(first + r, k);
#endif
        slopes[i][j] = weight * (slopes[i][j] - delta_of_row);
      }
    }
    share(weights, slopes);
    add_weighted(sums, chunk, weights, keys, ROW(KEY), count, D);
  }
  FOR(i, RM) factor[i] = problem.scale;
  store_rows(OUT_MATRIX(GRAD_QUERY, grad_query, batch, head) + first * ROW(GRAD_QUERY),
             ROW(GRAD_QUERY), rows, D, sums, factor);
}

#endif
