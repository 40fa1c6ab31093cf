// Attention of few queries on GPUs: a work-group of ITEMS takes a part of the keys, in blocks of
// ITEMS. A work-item computes the scores of one key. Keys pass through local memory in chunks of
// DEPTH elements, so that adjacent work-items load adjacent elements. Then a work-item sums every
// ITEMS-th column of the weighted values. If there are fewer columns, SLICES work-items share a
// column, and each takes every SLICES-th key.
//   ITEMS   work-items of a group, a power of two
// Defines: sdpa.clh, sdpa_decode.clh.
#define WIDTH 1
#include "sdpa_decode.clh"

#define DEPTH 32
#define AT_ONCE (QUERIES <= 2 ? 16 : 8)  // loads in flight; many queries need the registers
#define CHUNK_LD (DEPTH + 1)  // so that adjacent keys begin in different banks
// Load number n of a work-item for a chunk.
#define KEY_OF(n) ((item + (n)*ITEMS) / DEPTH)
#define ELEMENT_OF(n) ((item + (n)*ITEMS) % DEPTH)
#define COLUMNS DIVIDE_UP(DV, ITEMS)
#define SLICES (DV < ITEMS ? ITEMS / DV : 1)

#ifdef HAS_BIAS
#define BIAS_OF(query, key) LOAD(DT, bias_matrix, (query) * BIAS_ROW + (key) * BIAS_COLUMN)
#else
#define BIAS_OF(query, key) 0
#endif
#ifdef CAUSAL
#define SEEN(query, key) ((key) <= (query))
#else
#define SEEN(query, key) true
#endif
// `product`: the scaled product of query and key.
#define SCORE(product, query, key) \
  (SEEN(query, key) ? (product) + BIAS_OF(query, key) : -INFINITY)

__attribute__((reqd_work_group_size(ITEMS, 1, 1))) DECODE_KERNEL {
  __local float chunk[ITEMS * CHUNK_LD], query_chunk[QUERIES * DEPTH], weights[QUERIES * ITEMS];
  const int item = get_local_id(0), slice = item / DV, column = item % DV;
  DECODE_RANGE(group_id(0), group_id(1), group_id(2))
  float top[QUERIES], total[QUERIES], sums[QUERIES][COLUMNS];
  FOR_QUERIES(q) {
    top[q] = -INFINITY;
    total[q] = 0;
    FOR(c, COLUMNS) sums[q][c] = 0;
  }
  for (long k0 = first; k0 < last; k0 += ITEMS) {
    const int count = (int)min((long)ITEMS, last - k0);
    float score[QUERIES];
    FOR_QUERIES(q) score[q] = 0;
    for (int e0 = 0; e0 < D; e0 += DEPTH) {
      // Not unrolled: AMD's compiler would keep all addresses in registers, and spill.
      _Pragma("unroll 1") for (int n = 0; n < DEPTH; n += AT_ONCE) {
        float element[AT_ONCE];
        FOR(i, AT_ONCE) {
          const int k = KEY_OF(n + i), e = e0 + ELEMENT_OF(n + i);
          element[i] = k < count && e < D ? LOAD(DT, keys, (k0 + k) * ROW(KEY) + e) : 0;
        }
        FOR(i, AT_ONCE) chunk[KEY_OF(n + i) * CHUNK_LD + ELEMENT_OF(n + i)] = element[i];
      }
      for (int i = item; i < QUERIES * DEPTH; i += ITEMS) {
        const int e = e0 + i % DEPTH;
        query_chunk[i] = e < D ? LOAD(DT, queries, i / DEPTH * ROW(QUERY) + e) * problem.scale : 0;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      FOR(e, DEPTH) {
        const float element = chunk[item * CHUNK_LD + e];
        FOR_QUERIES(q) score[q] = mad(element, query_chunk[q * DEPTH + e], score[q]);
      }
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    FOR_QUERIES(q) {
      score[q] = item < count ? SCORE(score[q], q, k0 + item) : -INFINITY;
      // Ignores NaN, but the sum gets it.
      weights[q * ITEMS + item] = score[q] > -INFINITY ? score[q] : -INFINITY;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = ITEMS / 2; step > 0; step /= 2) {
      if (item < step) {
        FOR_QUERIES(q) {
          __local float *peak = weights + q * ITEMS + item;
          peak[0] = fmax(peak[0], peak[step]);
        }
      }
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    float peak[QUERIES];
    FOR_QUERIES(q) peak[q] = fmax(top[q], weights[q * ITEMS]);
    barrier(CLK_LOCAL_MEM_FENCE);
    FOR_QUERIES(q) {
      const float base = peak[q] == -INFINITY ? 0 : peak[q];
      const float factor = exp(top[q] - base), weight = exp(score[q] - base);
      top[q] = peak[q];
      total[q] = total[q] * factor + weight;
      weights[q * ITEMS + item] = weight;
      FOR(c, COLUMNS) sums[q][c] *= factor;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slice < SLICES) {
      FOR(c, COLUMNS) {
        const int of_item = COLUMNS > 1 ? item + c * ITEMS : column;
        if (of_item >= DV) continue;
        __global const MEM(DT) *value = values + k0 * ROW(VALUE) + of_item;
        int k = slice;
        for (; k + (AT_ONCE - 1) * SLICES < count; k += AT_ONCE * SLICES) {
          float element[AT_ONCE];
          FOR(i, AT_ONCE) element[i] = LOAD(DT, value, (k + i * SLICES) * ROW(VALUE));
          FOR(i, AT_ONCE) FOR_QUERIES(q)
            sums[q][c] = mad(weights[q * ITEMS + k + i * SLICES], element[i], sums[q][c]);
        }
        for (; k < count; k += SLICES) {
          const float element = LOAD(DT, value, k * ROW(VALUE));
          FOR_QUERIES(q) sums[q][c] = mad(weights[q * ITEMS + k], element, sums[q][c]);
        }
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  FOR_QUERIES(q) weights[q * ITEMS + item] = total[q];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int step = ITEMS / 2; step > 0; step /= 2) {
    if (item < step) {
      FOR_QUERIES(q) weights[q * ITEMS + item] += weights[q * ITEMS + item + step];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  FOR_QUERIES(q) {
    total[q] = weights[q * ITEMS];
    if (item == 0) { STORE_TOTAL(q, top[q], total[q]) }
  }
#if SLICES > 1
  barrier(CLK_LOCAL_MEM_FENCE);
  FOR_QUERIES(q) weights[q * ITEMS + item] = sums[q][0];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item < DV) {
    FOR_QUERIES(q) {
      for (int s = 1; s < SLICES; ++s) sums[q][0] += weights[q * ITEMS + s * DV + item];
    }
  }
#endif
  FOR_QUERIES(q) FOR(c, COLUMNS) {
    if (item + c * ITEMS < DV) STORE_SUM(q, item + c * ITEMS, sums[q][c], total[q])
  }
}
