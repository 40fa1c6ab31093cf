// Attention of the GPU family: a work-group computes ROWS_OF_GROUP queries (keys, for the gradients
// of keys and values) and loops over the keys (queries) in blocks of BLOCK.
// Each program has one kernel, because the number of rows for which registers suffice differs among
// the kernels.
//   FORWARD        attention_forward
//   KEYS_IN_ROWS   attention_grad_key; else attention_grad_query
// Other defines and Problem: sdpa.clh, sdpa_tiles.clh. Grid: (SIDE * blocks of rows,
// SIDE_Y * heads, batch).
#define WIDTH 1
#include "sdpa.clh"
#include "sdpa_tiles.clh"

// Greatest scores and sums of the work-items that share a row.
#if SIDE < 4
#define A_SIDE (SIDE + 1)
#else
#define A_SIDE (SIDE + 4)
#endif

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
// How many of `count` keys a query sees. `query`: its number minus that of the first key.
static inline int keys_seen(const int count, const long query) {
#ifdef CAUSAL
  return (int)min((long)count, query + 1);
#else
  return count;
#endif
}
// A score; -inf if the query does not see the key.
#define SCORE(seen, product, query, key) \
  ((seen) ? (product) * problem.scale + BIAS_AT(query, key) : -INFINITY)

#ifdef KEYS_IN_ROWS

KERNEL attention_grad_key(TENSOR(grad_key), TENSOR(grad_value), CTENSOR(query), CTENSOR(key),
                          CTENSOR(value), BIAS_ARGUMENT CTENSOR(grad), CTENSOR(log_sum),
                          CTENSOR(delta), const Problem problem) {
  LOCAL_VECTORS chunk[CHUNK], weights[BLOCK * A_LD];
  const int x = get_local_id(0), y = get_local_id(1);
  const bool ahead = LOADS_AHEAD(2, 2);
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
      multiply(tile, chunk, keys, ROW(KEY), rows, queries, ROW(QUERY), count, D, ahead);
      multiply(slopes, chunk, values, ROW(VALUE), rows, grads, ROW(GRAD), count, DV, ahead);
      FOR(j, CM) {
        const long q = q0 + COLUMN_OF(j);
        const bool exists = COLUMN_OF(j) < count;
        const float log_sum_of_row = exists ? CPTR(float, log_sum)[row + q] : INFINITY;
        const float delta_of_row = exists ? CPTR(float, delta)[row + q] : 0;
        FOR(i, RM) {
          const long k = first + ROW_OF(i);
          const bool seen = exists && ROW_OF(i) < keys_seen(rows, q - first);
          const float weight = exp(SCORE(seen, tile[i][j], q, k) - log_sum_of_row);
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
      add_weighted(value_sums, chunk, weights, grads, ROW(GRAD), count, DV, ahead);
      share(weights, slopes);
      add_weighted(key_sums, chunk, weights, queries, ROW(QUERY), count, D, ahead);
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

// Later queries see more keys, so the groups that begin first compute them.
#ifdef CAUSAL
#define ROW_BLOCK (DIVIDE_UP(problem.queries, ROWS_OF_GROUP) - 1 - (long)group_id(0))
#define LAST_KEY min(problem.keys, first + ROWS_OF_GROUP)
#else
#define ROW_BLOCK ((long)group_id(0))
#define LAST_KEY problem.keys
#endif
// How many keys of the block that begins at k0 are visible to the query of row r.
#define KEYS_SEEN(r) ((r) < rows ? keys_seen(count, first + (r) - k0) : 0)

#define QUERY_BLOCK                                                                           \
  const int x = get_local_id(0), y = get_local_id(1);                                         \
  const long batch = group_id(2), head = group_id(1), key_head = head / problem.group; \
  const long first = ROW_BLOCK * ROWS_OF_GROUP;                                               \
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

#ifdef FORWARD

// Runs `each` for every number n of a row of `partial`.
#if SIDE < 4
#define FOR_PARTIAL(row, each)                                              \
  for (int column = 0; column < SIDE; ++column) {                           \
    const float n = partial[(row) * A_SIDE + column];                       \
    each;                                                                   \
  }
#else
#define FOR_PARTIAL(row, each)                                              \
  for (int column = 0; column < SIDE; column += 4) {                        \
    const float4 four = *(const __local float4 *)(partial + (row) * A_SIDE + column); \
    const float numbers[4] = {four.x, four.y, four.z, four.w};              \
    FOR(in_four, 4) {                                                       \
      const float n = numbers[in_four];                                     \
      each;                                                                 \
    }                                                                       \
  }
#endif

KERNEL attention_forward(TENSOR(out), TENSOR(log_sum), CTENSOR(query), CTENSOR(key), CTENSOR(value),
                         BIAS_ARGUMENT const Problem problem) {
  LOCAL_VECTORS chunk[CHUNK], weights[BLOCK * A_LD];
  LOCAL_VECTORS partial[ROWS_OF_GROUP * A_SIDE];
  QUERY_BLOCK
  const bool ahead = LOADS_AHEAD(1, 1);
  float top[RM], total[RM];
  FOR(i, RM) {
    top[i] = -INFINITY;
    total[i] = 0;
  }
  for (long k0 = 0; k0 < last; k0 += BLOCK) {
    KEY_BLOCK
    float tile[RM][CM];
    multiply(tile, chunk, queries, ROW(QUERY), rows, keys, ROW(KEY), count, D, ahead);
    FOR(i, RM) {
      const long q = first + ROW_OF(i);
      const int seen = KEYS_SEEN(ROW_OF(i));
      float peak = top[i];
      FOR(j, CM) {
        tile[i][j] = SCORE(COLUMN_OF(j) < seen, tile[i][j], q, k0 + COLUMN_OF(j));
        peak = tile[i][j] > peak ? tile[i][j] : peak;  // ignores NaN, but the sum gets it
      }
      partial[ROW_OF(i) * A_SIDE + x] = peak;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    FOR(i, RM) {
      float peak = -INFINITY;
      FOR_PARTIAL(ROW_OF(i), peak = fmax(peak, n))
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
    add_weighted(sums, chunk, weights, values, ROW(VALUE), count, DV, ahead);
  }
  FOR(i, RM) partial[ROW_OF(i) * A_SIDE + x] = total[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  FOR(i, RM) {
    const int r = ROW_OF(i);
    float sum = 0;
    FOR_PARTIAL(r, sum += n)
    // If a query sees no key, its result is 0, and so are its weights in the backward pass.
    const bool empty = sum == 0;
    total[i] = empty ? 0 : 1 / sum;
    if (x == 0 && r < rows) PTR(float, log_sum)[row + r] = empty ? INFINITY : top[i] + log(sum);
  }
  store_rows(OUT_MATRIX(OUT, out, batch, head) + first * ROW(OUT), ROW(OUT), rows, DV, sums, total);
}

#else

KERNEL attention_grad_query(TENSOR(grad_query), CTENSOR(query), CTENSOR(key), CTENSOR(value),
                            BIAS_ARGUMENT CTENSOR(grad), CTENSOR(log_sum), CTENSOR(delta),
                            const Problem problem) {
  LOCAL_VECTORS chunk[CHUNK], weights[BLOCK * A_LD];
  QUERY_BLOCK
  const bool ahead = LOADS_AHEAD(1, 2);
  __global const MEM(DT) *grads = MATRIX(GRAD, grad, batch, head) + first * ROW(GRAD);
  float factor[RM];
  for (long k0 = 0; k0 < last; k0 += BLOCK) {
    KEY_BLOCK
    float tile[RM][CM], slopes[RM][CM];
    multiply(tile, chunk, queries, ROW(QUERY), rows, keys, ROW(KEY), count, D, ahead);
    multiply(slopes, chunk, grads, ROW(GRAD), rows, values, ROW(VALUE), count, DV, ahead);
    FOR(i, RM) {
      const int r = ROW_OF(i), seen = KEYS_SEEN(r);
      const float log_sum_of_row = r < rows ? CPTR(float, log_sum)[row + r] : INFINITY;
      const float delta_of_row = r < rows ? CPTR(float, delta)[row + r] : 0;
      FOR(j, CM) {
        const long k = k0 + COLUMN_OF(j);
        const float score = SCORE(COLUMN_OF(j) < seen, tile[i][j], first + r, k);
        const float weight = exp(score - log_sum_of_row);
#ifdef DROPOUT
        slopes[i][j] *= KEEP_FACTOR(first + r, k);
#endif
        slopes[i][j] = weight * (slopes[i][j] - delta_of_row);
      }
    }
    share(weights, slopes);
    add_weighted(sums, chunk, weights, keys, ROW(KEY), count, D, ahead);
  }
  FOR(i, RM) factor[i] = problem.scale;
  store_rows(OUT_MATRIX(GRAD_QUERY, grad_query, batch, head) + first * ROW(GRAD_QUERY),
             ROW(GRAD_QUERY), rows, D, sums, factor);
}

#endif
#endif
