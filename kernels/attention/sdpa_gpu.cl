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
// Sums of columns: VEC adjacent ones of a work-item are read as a vector.
#if DM % 4 == 0
#define VEC 4
#elif DM % 2 == 0
#define VEC 2
#else
#define VEC 1
#endif
#define SUM_COLUMN(j) ((j) / VEC * VEC * SIDE + x * VEC + (j) % VEC)
#if SIDE < 4
#define A_SIDE (SIDE + 1)
#else
#define A_SIDE (SIDE + 4)
#endif
#define ROW_OF(i) (y * RM + (i))
#define COLUMN_OF(j) (x * CM + (j))
#define PRODUCT_CHUNK (DEPTH * (A_LD + B_LD))
#define SUM_CHUNK (DEPTH * SIDE * DM)
#define CHUNK (PRODUCT_CHUNK > SUM_CHUNK ? PRODUCT_CHUNK : SUM_CHUNK)

// Whether a work-item loads the next chunk into registers while it multiplies one. Where sums and
// tiles take more registers than this, compilers of AMD's and NVIDIA's GPUs spill.
#define MOST_REGISTERS 48
#define LOADS_AHEAD(sums, tiles) (RM * DM * (sums) + RM * CM * (tiles) <= MOST_REGISTERS)
// A work-item's loads for a chunk, and the rows between them; SIDE and RM are powers of two.
#define STEP (ITEMS / DEPTH)
#define OWN(rows) ((rows) / STEP)
#define OWN_SUMS (SUM_CHUNK / ITEMS)
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

// Brings `count` elements of a work-item to local memory: element(n) to place(n). `next` has them
// already where they were loaded ahead.
#define BRING(count, to, place, next, element)                          \
  if (ahead) {                                                          \
    FOR(n, count) to[place(n)] = next[n];                               \
  } else {                                                              \
    for (int n = 0; n < (count); ++n) to[place(n)] = element(n);        \
  }
#define AHEAD(count, next, element) FOR(n, count) next[n] = element(n);

// tile = products of the rows of a and b, which have `size` elements.
ALWAYS_INLINE void multiply(float tile[RM][CM], __local float *chunk, MATRIX_ARGUMENTS(a),
                            MATRIX_ARGUMENTS(b), const int size, const bool ahead) {
  const int x = get_local_id(0), y = get_local_id(1), item = y * SIDE + x;
  const int p = item % DEPTH, first = item / DEPTH;
  __local float *a_chunk = chunk, *b_chunk = chunk + DEPTH * A_LD;
  float next_a[OWN(ROWS_OF_GROUP)], next_b[OWN(BLOCK)];
#define OWN_ROW(n) (first + (n) * STEP)
#define ELEMENT(x, row) \
  (k0 + p < size && row < x##_count ? LOAD(DT, x, row * x##_stride + k0 + p) : 0)
#define PLACE_A(n) (p * A_LD + OWN_ROW(n))
#define PLACE_B(n) (p * B_LD + OWN_ROW(n))
#define ELEMENT_A(n) ELEMENT(a, OWN_ROW(n))
#define ELEMENT_B(n) ELEMENT(b, OWN_ROW(n))
  FOR(i, RM) FOR(j, CM) tile[i][j] = 0;
  int k0 = 0;
  if (ahead) {
    AHEAD(OWN(ROWS_OF_GROUP), next_a, ELEMENT_A)
    AHEAD(OWN(BLOCK), next_b, ELEMENT_B)
  }
  while (k0 < size) {
    BRING(OWN(ROWS_OF_GROUP), a_chunk, PLACE_A, next_a, ELEMENT_A)
    BRING(OWN(BLOCK), b_chunk, PLACE_B, next_b, ELEMENT_B)
    barrier(CLK_LOCAL_MEM_FENCE);
    k0 += DEPTH;
    if (ahead && k0 < size) {
      AHEAD(OWN(ROWS_OF_GROUP), next_a, ELEMENT_A)
      AHEAD(OWN(BLOCK), next_b, ELEMENT_B)
    }
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

ALWAYS_INLINE void read_columns(float elements[DM], const __local float *row) {
  const int x = get_local_id(0);
#if VEC == 4
  FOR(j, DM / 4) {
    const float4 four = *(const __local float4 *)(row + SUM_COLUMN(4 * j));
    elements[4 * j] = four.x;
    elements[4 * j + 1] = four.y;
    elements[4 * j + 2] = four.z;
    elements[4 * j + 3] = four.w;
  }
#elif VEC == 2
  FOR(j, DM / 2) {
    const float2 two = *(const __local float2 *)(row + SUM_COLUMN(2 * j));
    elements[2 * j] = two.x;
    elements[2 * j + 1] = two.y;
  }
#else
  FOR(j, DM) elements[j] = row[SUM_COLUMN(j)];
#endif
}

// sums += the rows of `a`, weighted by the work-group's weights, [BLOCK][A_LD].
ALWAYS_INLINE void add_weighted(float sums[RM][DM], __local float *chunk,
                                const __local float *weights, MATRIX_ARGUMENTS(a), const int size,
                                const bool ahead) {
  const int x = get_local_id(0), y = get_local_id(1), item = y * SIDE + x;
  float next[OWN_SUMS];
#define PLACE_SUM(n) (item + (n) * ITEMS)
#define SUM_ROW(n) (k0 + PLACE_SUM(n) / (SIDE * DM))
#define SUM_AT(n) (PLACE_SUM(n) % (SIDE * DM))
#define ELEMENT_SUM(n) \
  (SUM_ROW(n) < a_count && SUM_AT(n) < size ? LOAD(DT, a, SUM_ROW(n) * a_stride + SUM_AT(n)) : 0)
  int k0 = 0;
  if (ahead) {
    AHEAD(OWN_SUMS, next, ELEMENT_SUM)
  }
  while (k0 < a_count) {
    BRING(OWN_SUMS, chunk, PLACE_SUM, next, ELEMENT_SUM)
    barrier(CLK_LOCAL_MEM_FENCE);
    const __local float *factors = weights + k0 * A_LD + ROW_OF(0);
    k0 += DEPTH;
    if (ahead && k0 < a_count) {
      AHEAD(OWN_SUMS, next, ELEMENT_SUM)
    }
    for (int k = 0; k < DEPTH; ++k) {
      float factor[RM], element[DM];
      read_rows(factor, factors + k * A_LD);
      read_columns(element, chunk + k * SIDE * DM);
      FOR(j, DM) FOR(i, RM) sums[i][j] = mad(factor[i], element[j], sums[i][j]);
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
      const int column = SUM_COLUMN(j);
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

// Executes `each` with every number of a row of `partial` as n.
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
  const bool ahead = LOADS_AHEAD(1, 2);
  __global const MEM(DT) *grads = MATRIX(GRAD, grad, batch, head) + first * ROW(GRAD);
  float factor[RM];
  for (long k0 = 0; k0 < last; k0 += BLOCK) {
    KEY_BLOCK
    float tile[RM][CM], slopes[RM][CM];
    multiply(tile, chunk, queries, ROW(QUERY), rows, keys, ROW(KEY), count, D, ahead);
    multiply(slopes, chunk, grads, ROW(GRAD), rows, values, ROW(VALUE), count, DV, ahead);
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
    add_weighted(sums, chunk, weights, keys, ROW(KEY), count, D, ahead);
  }
  FOR(i, RM) factor[i] = problem.scale;
  store_rows(OUT_MATRIX(GRAD_QUERY, grad_query, batch, head) + first * ROW(GRAD_QUERY),
             ROW(GRAD_QUERY), rows, D, sums, factor);
}

#endif
