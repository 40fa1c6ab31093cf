// Attention of the CPU family: a task computes NV vectors of queries (of keys, for the gradients of
// keys and values), one query per lane, and loops over the keys in blocks of BLOCK rows. So both
// products of a block multiply numbers by vectors, as in gemm_cpu.cl, and the softmax needs no sums
// over lanes.
//   WIDTH, NV   lanes of a vector, vectors of a task
//   MR          rows of a register tile; divides BLOCK
//   BLOCK       rows of a block
//   PAIRS       the products are those of sdpa_pairs_cpu.clh
// Defines and Problem: sdpa.clh. Grid: (blocks of lanes, heads, batch).
#include "sdpa.clh"
#include "sdpa_lanes_cpu.clh"

#define FOR_ROWS_OF_TILE(i) _Pragma("unroll") for (int i = 0; i < MR; ++i)

#ifdef PAIRS
#include "sdpa_pairs_cpu.clh"
#else
#include "sdpa_floats_cpu.clh"
#endif

// Stores panel[i][lane] * factor[lane] into row number `lane` of the matrix.
ALWAYS_INLINE void unpack(__global MEM(DT) *matrix, const long stride, const int count,
                          const int size, const __local V *panel, const V *factor) {
  const __local float *lanes = (const __local float *)panel;
  const float *factors = (const float *)factor;
  for (int lane = 0; lane < count; ++lane, matrix += stride) {
    int i = 0;
    for (; i + WIDTH <= size; i += WIDTH) {
      float some[WIDTH];
      for (int l = 0; l < WIDTH; ++l) some[l] = lanes[(size_t)(i + l) * LANES + lane];
      STOREV(DT, matrix, i, VLOAD(some, 0) * factors[lane]);
    }
    for (; i < size; ++i)
      STORE(DT, matrix, i, lanes[(size_t)i * LANES + lane] * factors[lane]);
  }
}

ALWAYS_INLINE void clear(__local V *panel, const int size) {
  for (int i = 0; i < ROUND_UP(size, MR) * NV; ++i) panel[i] = (V)(0.0f);
}

#ifdef KEYS_IN_LANES

TASK __kernel void attention_grad_key(TENSOR(grad_key), TENSOR(grad_value), CTENSOR(query),
                                      CTENSOR(key), CTENSOR(value), BIAS_ARGUMENT CTENSOR(grad),
                                      CTENSOR(log_sum), CTENSOR(delta), const Problem problem) {
  __local PANEL keys[ITEMS(D) * NV], values[ITEMS(DV) * NV];
  __local V key_sums[ROUND_UP(D, MR) * NV], value_sums[ROUND_UP(DV, MR) * NV];
  __local V weights[BLOCK * NV], slopes[BLOCK * NV];
  ROW_COPY
  const long batch = get_global_id(2), key_head = get_global_id(1);
  const long first = get_global_id(0) * LANES;
  const int lanes = (int)min((long)LANES, problem.keys - first);
  pack(keys, MATRIX(KEY, key, batch, key_head) + first * ROW(KEY), ROW(KEY), lanes, D);
  pack(values, MATRIX(VALUE, value, batch, key_head) + first * ROW(VALUE), ROW(VALUE), lanes, DV);
  clear(key_sums, D);
  clear(value_sums, DV);
  V ones[NV];
  FOR_VECTORS(j) ones[j] = (V)(1.0f);

  for (long head = key_head * problem.group; head < (key_head + 1) * problem.group; ++head) {
    BIAS_MATRIX(batch, head)
    const long row = (batch * problem.heads + head) * problem.queries;
#ifdef CAUSAL
    const long start = first;
#else
    const long start = 0;
#endif
    for (long q0 = start; q0 < problem.queries; q0 += BLOCK) {
      const int count = (int)min((long)BLOCK, problem.queries - q0);
      __global const MEM(DT) *query_rows = MATRIX(QUERY, query, batch, head) + q0 * ROW(QUERY);
      __global const MEM(DT) *grad_rows = MATRIX(GRAD, grad, batch, head) + q0 * ROW(GRAD);
      __global const float *log_sums = CPTR(float, log_sum) + row + q0;
      __global const float *deltas = CPTR(float, delta) + row + q0;
      ROWS rows;
      SUMMANDS summands;
      long rows_stride, summands_stride;
      TAKE_ROWS(rows, grad_rows, ROW(GRAD), count, DV)
      multiply(slopes, rows, rows_stride, count, values, DV, 1.0f);
      TAKE_ROWS(rows, query_rows, ROW(QUERY), count, D)
      multiply(weights, rows, rows_stride, count, keys, D, problem.scale);
      for (int r = 0; r < count; ++r) {
        FOR_VECTORS(j) {
          const INT number = (INT)((int)first + j * WIDTH) + NUMBERS;
          V score = weights[r * NV + j];
          ADD_BIAS(score, q0 + r, first + j * WIDTH, BIAS_COLUMN, lanes - j * WIDTH)
          V weight = exp(score - log_sums[r]);
#ifdef CAUSAL
          weight = number > (INT)((int)q0 + r) ? (V)(0.0f) : weight;
#endif
          V slope = slopes[r * NV + j];
#ifdef DROPOUT
          const ulong counter = HEAD_COUNTER(batch, head) + (q0 + r) * COUNTERS_OF_ROW;
          const Words words = philox(counter + CONVERT(ulong, number / 4), problem.seed);
          const INT which = number & 3;
          const WORD word = which < 2 ? (which == 0 ? words.w0 : words.w1)
                                      : (which == 2 ? words.w2 : words.w3);
          const V kept = keep_factor(word, problem.threshold, problem.keep_scale);
          slope *= kept;
          weights[r * NV + j] = weight * kept;
#else
          weights[r * NV + j] = weight;
#endif
          slopes[r * NV + j] = weight * (slope - deltas[r]);
        }
      }
      TAKE_SAME_SUMMANDS(summands, query_rows, ROW(QUERY), count, D)
      add_weighted(key_sums, ones, summands, summands_stride, count, slopes, D PAIR_SPACE);
      TAKE_SUMMANDS(summands, grad_rows, ROW(GRAD), count, DV)
      add_weighted(value_sums, ones, summands, summands_stride, count, weights, DV PAIR_SPACE);
    }
  }
  unpack(OUT_MATRIX(GRAD_VALUE, grad_value, batch, key_head) + first * ROW(GRAD_VALUE),
         ROW(GRAD_VALUE), lanes, DV, value_sums, ones);
  FOR_VECTORS(j) ones[j] = (V)(problem.scale);
  unpack(OUT_MATRIX(GRAD_KEY, grad_key, batch, key_head) + first * ROW(GRAD_KEY), ROW(GRAD_KEY),
         lanes, D, key_sums, ones);
}

#else

#ifdef CAUSAL
#define LAST_KEY min(problem.keys, first + LANES)
#define HIDE_LATER(score, number, hidden) score = (number) < (INT)(key) ? (V)(hidden) : score;
#else
#define LAST_KEY problem.keys
#define HIDE_LATER(score, number, hidden)
#endif

#define QUERY_BLOCK                                                                          \
  const long batch = get_global_id(2), head = get_global_id(1), key_head = head / problem.group; \
  const long first = get_global_id(0) * LANES;                                               \
  const int lanes = (int)min((long)LANES, problem.queries - first);                          \
  const long row = (batch * problem.heads + head) * problem.queries + first;                 \
  BIAS_MATRIX(batch, head)                                                                   \
  pack(queries, MATRIX(QUERY, query, batch, head) + first * ROW(QUERY), ROW(QUERY), lanes, D);

#ifdef DROPOUT
// Dropout for a block of weights: drops some and scales the others. A draw gives words for four
// keys.
#define DROP(values)                                                                           \
  for (int r = 0; r < count; r += 4) {                                                         \
    FOR_VECTORS(j) {                                                                           \
      const ulong counter = HEAD_COUNTER(batch, head) + (first + j * WIDTH) * COUNTERS_OF_ROW + \
                            (k0 + r) / 4;                                                      \
      const Words words =                                                                      \
          philox(counter + CONVERT(ulong, NUMBERS) * (ulong)COUNTERS_OF_ROW, problem.seed);    \
      const WORD word[4] = {words.w0, words.w1, words.w2, words.w3};                           \
      for (int i = 0; i < min(4, count - r); ++i)                                              \
        values[(r + i) * NV + j] *=                                                            \
            keep_factor(word[i], problem.threshold, problem.keep_scale);                       \
    }                                                                                          \
  }
#else
#define DROP(values)
#endif

#ifdef FORWARD
TASK __kernel void attention_forward(TENSOR(out), TENSOR(log_sum), CTENSOR(query), CTENSOR(key),
                                     CTENSOR(value), BIAS_ARGUMENT const Problem problem) {
  __local PANEL queries[ITEMS(D) * NV];
  __local V sums[ROUND_UP(DV, MR) * NV], tile[BLOCK * NV];
  ROW_COPY
  QUERY_BLOCK
  clear(sums, DV);
  V top[NV], total[NV], factor[NV];
  FOR_VECTORS(j) {
    top[j] = (V)(-INFINITY);
    total[j] = (V)(0.0f);
  }
  const long last = LAST_KEY;
  for (long k0 = 0; k0 < last; k0 += BLOCK) {
    const int count = (int)min((long)BLOCK, last - k0);
    ROWS rows;
    SUMMANDS summands;
    long rows_stride, summands_stride;
    TAKE_ROWS(rows, MATRIX(KEY, key, batch, key_head) + k0 * ROW(KEY), ROW(KEY), count, D)
    multiply(tile, rows, rows_stride, count, queries, D, problem.scale);
    V peak[NV];
    FOR_VECTORS(j) peak[j] = top[j];
    for (int r = 0; r < count; ++r) {
      const int key = (int)k0 + r;
      FOR_VECTORS(j) {
        V score = tile[r * NV + j];
        ADD_BIAS(score, first + j * WIDTH, key, BIAS_ROW, lanes - j * WIDTH)
        HIDE_LATER(score, (INT)((int)first + j * WIDTH) + NUMBERS, -INFINITY)
#if defined(HAS_BIAS) || defined(CAUSAL)
        tile[r * NV + j] = score;
#endif
        peak[j] = score > peak[j] ? score : peak[j];  // ignores NaN, but the sum gets it
      }
    }
    V base[NV];
    FOR_VECTORS(j) {
      base[j] = peak[j] == (V)(-INFINITY) ? (V)(0.0f) : peak[j];
      factor[j] = exp(top[j] - base[j]);
      total[j] *= factor[j];
      top[j] = peak[j];
    }
    for (int r = 0; r < count; ++r) {
      FOR_VECTORS(j) {
        const V weight = exp(tile[r * NV + j] - base[j]);
        total[j] += weight;
        tile[r * NV + j] = weight;
      }
    }
    DROP(tile)
    TAKE_SUMMANDS(summands, MATRIX(VALUE, value, batch, key_head) + k0 * ROW(VALUE), ROW(VALUE),
                  count, DV)
    add_weighted(sums, factor, summands, summands_stride, count, tile, DV PAIR_SPACE);
  }
  V logs[NV];
  FOR_VECTORS(j) {
    // If a query sees no key, its result is 0, and so are its weights in the backward pass.
    const INT empty = total[j] == (V)(0.0f);
    logs[j] = empty ? (V)(INFINITY) : top[j] + log(total[j]);
    factor[j] = empty ? (V)(0.0f) : 1.0f / total[j];
  }
  unpack(OUT_MATRIX(OUT, out, batch, head) + first * ROW(OUT), ROW(OUT), lanes, DV, sums, factor);
  for (int lane = 0; lane < lanes; ++lane)
    PTR(float, log_sum)[row + lane] = ((const float *)logs)[lane];
}
#else
TASK __kernel void attention_grad_query(TENSOR(grad_query), CTENSOR(query), CTENSOR(key),
                                        CTENSOR(value), BIAS_ARGUMENT CTENSOR(grad),
                                        CTENSOR(log_sum), CTENSOR(delta), const Problem problem) {
  __local PANEL queries[ITEMS(D) * NV], grads[ITEMS(DV) * NV];
  __local V sums[ROUND_UP(D, MR) * NV];
  __local V slopes[BLOCK * NV], tile[BLOCK * NV];
  ROW_COPY
  QUERY_BLOCK
  pack(grads, MATRIX(GRAD, grad, batch, head) + first * ROW(GRAD), ROW(GRAD), lanes, DV);
  clear(sums, D);
  V ones[NV], logs[NV], deltas[NV];
  FOR_VECTORS(j) {
    ones[j] = (V)(1.0f);
    LOAD_LANES(f32, logs[j], CPTR(float, log_sum) + row + j * WIDTH, 1, lanes - j * WIDTH, INFINITY)
    LOAD_LANES(f32, deltas[j], CPTR(float, delta) + row + j * WIDTH, 1, lanes - j * WIDTH, 0.0f)
  }
  const long last = LAST_KEY;
  for (long k0 = 0; k0 < last; k0 += BLOCK) {
    const int count = (int)min((long)BLOCK, last - k0);
    ROWS rows;
    SUMMANDS summands;
    long rows_stride, summands_stride;
    __global const MEM(DT) *key_rows = MATRIX(KEY, key, batch, key_head) + k0 * ROW(KEY);
    TAKE_ROWS(rows, MATRIX(VALUE, value, batch, key_head) + k0 * ROW(VALUE), ROW(VALUE), count, DV)
    multiply(slopes, rows, rows_stride, count, grads, DV, 1.0f);
    TAKE_ROWS(rows, key_rows, ROW(KEY), count, D)
    multiply(tile, rows, rows_stride, count, queries, D, problem.scale);
    DROP(slopes)
    for (int r = 0; r < count; ++r) {
      const int key = (int)k0 + r;
      FOR_VECTORS(j) {
        V score = tile[r * NV + j];
        ADD_BIAS(score, first + j * WIDTH, key, BIAS_ROW, lanes - j * WIDTH)
        V weight = exp(score - logs[j]);
        HIDE_LATER(weight, (INT)((int)first + j * WIDTH) + NUMBERS, 0.0f)
        tile[r * NV + j] = weight * (slopes[r * NV + j] - deltas[j]);
      }
    }
    TAKE_SAME_SUMMANDS(summands, key_rows, ROW(KEY), count, D)
    add_weighted(sums, ones, summands, summands_stride, count, tile, D PAIR_SPACE);
  }
  FOR_VECTORS(j) ones[j] = (V)(problem.scale);
  unpack(OUT_MATRIX(GRAD_QUERY, grad_query, batch, head) + first * ROW(GRAD_QUERY), ROW(GRAD_QUERY),
         lanes, D, sums, ones);
}
#endif

#endif
