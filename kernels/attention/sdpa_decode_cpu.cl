// Attention of few queries on CPUs: a task takes a part of the keys, in blocks of BLOCK.
// Defines: sdpa.clh, sdpa_decode.clh, and
//   WIDTH   lanes of a vector
#include "sdpa_decode.clh"
#define T float
#define V VEC(float)
#include "lanes.clh"

#define BLOCK 64
#define KEYS (QUERIES < 4 ? 4 / QUERIES : 1)  // at a time, for enough independent sums
#define COLUMNS 16                            // of values at a time: the floats of a cache line
#define VECTORS (COLUMNS / WIDTH)
#define WHOLE(size, of) ((size) / (of) * (of))

// scores[query][key] = products of the scaled queries with `count` keys.
ALWAYS_INLINE void multiply(__local float *scores, const __local float *scaled,
                            __global const MEM(DT) *keys, const long stride, const int count) {
  for (int k = 0; k < count; k += KEYS) {
    V part[KEYS][QUERIES];
    __global const MEM(DT) *key[KEYS];
    FOR(i, KEYS) {
      key[i] = keys + min(k + i, count - 1) * stride;
      FOR_QUERIES(q) part[i][q] = (V)(0.0f);
    }
    for (int e = 0; e < WHOLE(D, WIDTH); e += WIDTH) {
      FOR(i, KEYS) {
        const V elements = LOADV(DT, key[i], e);
        FOR_QUERIES(q) {
          const V factor = VLOAD_LOCAL(float, scaled, q * D + e);
          part[i][q] = fma(elements, factor, part[i][q]);
        }
      }
    }
    FOR(i, KEYS) FOR_QUERIES(q) {
      float sum = sum_of_lanes(part[i][q]);
      for (int e = WHOLE(D, WIDTH); e < D; ++e)
        sum = fma((float)LOAD(DT, key[i], e), scaled[q * D + e], sum);
      scores[q * BLOCK + k + i] = sum;
    }
  }
}

// Adds the weighted values of `number` keys from k on, without those after the last key: zero times
// infinity is not zero.
#define ADD_KEYS(number)                                                                      \
  FOR(i, number) {                                                                            \
    __global const MEM(DT) *value = values + (k + i) * stride + column;                       \
    FOR(v, VECTORS) {                                                                         \
      const V elements = LOADV(DT, value, v * WIDTH);                                         \
      FOR_QUERIES(q)                                                                          \
        part[i][q][v] = fma((V)(weights[q * BLOCK + k + i]), elements, part[i][q][v]);        \
    }                                                                                         \
  }

// sums[query][column] = factor[query] * sums[query][column] + sum over keys of weights[query][key]
// * value.
ALWAYS_INLINE void add_weighted(__local float *sums, const float *factor,
                                const __local float *weights, __global const MEM(DT) *values,
                                const long stride, const int count) {
  for (int column = 0; column < WHOLE(DV, COLUMNS); column += COLUMNS) {
    V part[KEYS][QUERIES][VECTORS];
    FOR(i, KEYS) FOR_QUERIES(q) FOR(v, VECTORS) part[i][q][v] = (V)(0.0f);
    int k = 0;
    for (; k + KEYS <= count; k += KEYS) ADD_KEYS(KEYS)
    for (; k < count; ++k) ADD_KEYS(1)
    FOR_QUERIES(q) FOR(v, VECTORS) {
      const int at = q * DV + column + v * WIDTH;
      V sum = VLOAD_LOCAL(float, sums, at) * factor[q];
      FOR(i, KEYS) sum += part[i][q][v];
      VSTORE_LOCAL(float, sum, sums, at);
    }
  }
  for (int column = WHOLE(DV, COLUMNS); column < DV; ++column) {
    FOR_QUERIES(q) {
      float sum = sums[q * DV + column] * factor[q];
      for (int k = 0; k < count; ++k)
        sum = fma((float)LOAD(DT, values, k * stride + column), weights[q * BLOCK + k], sum);
      sums[q * DV + column] = sum;
    }
  }
}

TASK DECODE_KERNEL {
  __local float scaled[QUERIES * D], sums[QUERIES * DV], scores[QUERIES * BLOCK];
  DECODE_RANGE(get_global_id(0), get_global_id(1), get_global_id(2))
  float top[QUERIES], total[QUERIES], factor[QUERIES];
  for (int q = 0; q < QUERIES; ++q) {
    for (int e = 0; e < D; ++e)
      scaled[q * D + e] = LOAD(DT, queries, q * ROW(QUERY) + e) * problem.scale;
    for (int e = 0; e < DV; ++e) sums[q * DV + e] = 0;
    top[q] = -INFINITY;
    total[q] = 0;
  }
  for (long k0 = first; k0 < last; k0 += BLOCK) {
    const int count = (int)min((long)BLOCK, last - k0);
    multiply(scores, scaled, keys + k0 * ROW(KEY), ROW(KEY), count);
    for (int q = 0; q < QUERIES; ++q) {
      __local float *score = scores + q * BLOCK;
      float peak = top[q];
      for (int k = 0; k < count; ++k) {
        score[k] = SCORE(score[k], q, k0 + k);
        peak = score[k] > peak ? score[k] : peak;  // a NaN gets into the sum, not here
      }
      for (int k = count; k < ROUND_UP(count, WIDTH); ++k) score[k] = -INFINITY;
      const float base = peak == -INFINITY ? 0 : peak;
      V weights = (V)(0.0f);
      for (int k = 0; k < count; k += WIDTH) {
        const V weight = exp(VLOAD_LOCAL(float, score, k) - base);
        weights += weight;
        VSTORE_LOCAL(float, weight, score, k);
      }
      factor[q] = exp(top[q] - base);
      total[q] = total[q] * factor[q] + sum_of_lanes(weights);
      top[q] = peak;
    }
    add_weighted(sums, factor, scores, values + k0 * ROW(VALUE), ROW(VALUE), count);
  }
  for (int q = 0; q < QUERIES; ++q) {
    STORE_TOTAL(q, top[q], total[q])
    for (int e = 0; e < DV; ++e) STORE_SUM(q, e, sums[q * DV + e], total[q])
  }
}
