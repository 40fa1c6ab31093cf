// Attention of few queries on CPUs: a task takes a part of the keys, in blocks of BLOCK.
// Defines: sdpa.clh, sdpa_decode.clh, and
//   WIDTH   lanes of a vector
#include "sdpa_decode.clh"
#define T float
#define V VEC(float)
#include "lanes.clh"

#define BLOCK 64
#define QUERY_SLOTS (QUERIES < 3 ? QUERIES : 4)
#define KEYS (WIDTH / QUERY_SLOTS)  // a vector holds the products of KEYS keys with all queries
#define COLUMNS (DV / WIDTH)        // vectors in a row of values
// A loop over keys updates CHUNK vectors of a row for CHUNK_QUERIES queries, whose sums fit into
// registers. Each of KEY_SUMS keys in flight has separate sums. Whole rows are read where possible,
// because processors prefetch adjacent memory.
#define CHUNK (COLUMNS < WIDTH ? COLUMNS : WIDTH)
#define CHUNK_QUERIES                       \
  (QUERIES * CHUNK <= WIDTH     ? QUERIES   \
   : QUERIES * CHUNK <= 2 * WIDTH && QUERIES % 2 == 0 ? QUERIES / 2 : 1)
#define KEY_SUMS (CHUNK * CHUNK_QUERIES <= 4 ? 2 : 1)
#define WHOLE(size, of) ((size) / (of) * (of))

// vectors[i]: the sums of pairs of lanes of vectors 2 * i and 2 * i + 1.
#define ADD_PAIRS(vectors, count)                                                             \
  FOR(i, count / 2)                                                                           \
  vectors[i] = (V)(vectors[2 * i].even, vectors[2 * i + 1].even) +                            \
               (V)(vectors[2 * i].odd, vectors[2 * i + 1].odd);

// scores[query][key] = products of the scaled queries with `count` keys.
ALWAYS_INLINE void multiply(__local float *scores, const __local float *scaled,
                            __global const MEM(DT) *keys, const long stride, const int count) {
  for (int k = 0; k < count; k += KEYS) {
    V part[WIDTH];  // query q, key k + i: q * KEYS + i
    FOR(i, WIDTH) part[i] = (V)(0.0f);
    __global const MEM(DT) *key[KEYS];
    FOR(i, KEYS) key[i] = keys + min(k + i, count - 1) * stride;
    FOR(i, KEYS) {
      for (int e = 0; e < WHOLE(D, WIDTH); e += WIDTH) {
        const V elements = LOADV(DT, key[i], e);
        FOR_QUERIES(q) {
          const int at = q * KEYS + i;
          part[at] = fma(elements, VLOAD_LOCAL(float, scaled, q * D + e), part[at]);
        }
      }
    }
    // Each iteration doubles the number of keys per vector, until one vector has the sums of all.
#if WIDTH == 16
    ADD_PAIRS(part, 16)
#endif
#if WIDTH >= 8
    ADD_PAIRS(part, 8)
#endif
    ADD_PAIRS(part, 4)
    ADD_PAIRS(part, 2)
    float sums[WIDTH];
    CAT(vstore, WIDTH)(part[0], 0, sums);
    FOR(i, KEYS) FOR_QUERIES(q) {
      float sum = sums[q * KEYS + i];
      for (int e = WHOLE(D, WIDTH); e < D; ++e)
        sum = fma((float)LOAD(DT, key[i], e), scaled[q * D + e], sum);
      scores[q * BLOCK + k + i] = sum;
    }
  }
}

// Adds to `scores` the biases of query q and of the `number` keys from `key` on.
#ifdef HAS_BIAS
#define ADD_BIAS(scores, q, key, number)                                                      \
  {                                                                                           \
    __global const MEM(DT) *biases = bias_matrix + (q) * BIAS_ROW + (key) * BIAS_COLUMN;      \
    if (BIAS_COLUMN == 1 && (number) >= WIDTH) {                                              \
      scores += LOADV(DT, biases, 0);                                                         \
    } else {                                                                                  \
      float each[WIDTH];                                                                      \
      for (int l = 0; l < WIDTH; ++l)                                                         \
        each[l] = LOAD(DT, biases, min(l, (number)-1) * BIAS_COLUMN);                         \
      scores += CAT(vload, WIDTH)(0, each);                                                   \
    }                                                                                         \
  }
#else
#define ADD_BIAS(scores, q, key, number)
#endif

// Adds the weighted values of `number` keys from k on. Skips those after the last key, because zero
// times infinity is not zero.
#define ADD_KEYS(number, vectors)                                                             \
  FOR(i, number) {                                                                            \
    __global const MEM(DT) *value = values + (k + i) * stride + column;                       \
    FOR(v, vectors) {                                                                         \
      const V elements = LOADV(DT, value, v * WIDTH);                                         \
      FOR(q, CHUNK_QUERIES) {                                                                 \
        const V weight = (V)(weights[(query + q) * BLOCK + k + i]);                           \
        part[i][q][v] = fma(weight, elements, part[i][q][v]);                                 \
      }                                                                                       \
    }                                                                                         \
  }

#define ADD_COLUMNS(vectors)                                                                  \
  for (int query = 0; query < QUERIES; query += CHUNK_QUERIES) {                              \
    V part[KEY_SUMS][CHUNK_QUERIES][vectors];                                                 \
    FOR(i, KEY_SUMS) FOR(q, CHUNK_QUERIES) FOR(v, vectors) part[i][q][v] = (V)(0.0f);         \
    int k = 0;                                                                                \
    for (; k + KEY_SUMS <= count; k += KEY_SUMS) ADD_KEYS(KEY_SUMS, vectors)                  \
    for (; k < count; ++k) ADD_KEYS(1, vectors)                                               \
    FOR(q, CHUNK_QUERIES) FOR(v, vectors) {                                                   \
      const int at = (query + q) * DV + column + v * WIDTH;                                   \
      V sum = VLOAD_LOCAL(float, sums, at) * factor[query + q];                               \
      FOR(i, KEY_SUMS) sum += part[i][q][v];                                                  \
      VSTORE_LOCAL(float, sum, sums, at);                                                     \
    }                                                                                         \
  }

// sums[query][column] = factor[query] * sums[query][column] + sum over keys of weights[query][key]
// * value.
ALWAYS_INLINE void add_weighted(__local float *sums, const float *factor,
                                const __local float *weights, __global const MEM(DT) *values,
                                const long stride, const int count) {
  int column = 0;
#if DV >= WIDTH
  for (; column + CHUNK * WIDTH <= DV; column += CHUNK * WIDTH) ADD_COLUMNS(CHUNK)
  for (; column + WIDTH <= DV; column += WIDTH) ADD_COLUMNS(1)
#endif
  for (; column < DV; ++column) {
    FOR_QUERIES(q) {
      float sum = sums[q * DV + column] * factor[q];
      for (int k = 0; k < count; ++k)
        sum = fma((float)LOAD(DT, values, k * stride + column), weights[q * BLOCK + k], sum);
      sums[q * DV + column] = sum;
    }
  }
}

// How many of the keys k0 .. k0 + count - 1 query q sees.
static inline int seen_keys(const int q, const long k0, const int count) {
#ifdef CAUSAL
  return (int)min((long)count, q + 1 - k0);
#else
  return count;
#endif
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
      V peaks = (V)(top[q]);
      for (int k = 0; k < count; k += WIDTH) {
        V some = VLOAD_LOCAL(float, score, k);
        ADD_BIAS(some, q, k0 + k, count - k)
        const VEC(int) seen = LANE_NUMBERS(int, WIDTH) < seen_keys(q, k0, count) - k;
        some = select((V)(-INFINITY), some, seen);
        VSTORE_LOCAL(float, some, score, k);
        peaks = select(peaks, some, some > peaks);  // ignores NaN, but the sum gets it
      }
      const float peak = greatest_lane(peaks);
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
