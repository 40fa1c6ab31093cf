// Attention of the CPU family by the matrix unit (matrix_unit_amx.clh). As in sdpa_cpu.cl, queries
// are in lanes, or keys for the gradients of keys and values, and the rows of the other side follow
// one another. A block has 32 lanes. With the rows r, of Q and G or of K and V, and the lanes l:
//     scores[r][l] = row r of Q (K) * lane l of K (Q)      slopes[r][l]: of G (V) and V (G)
//     sums[i][l] += element i of row r * weight[r][l]
// The rows are the left operands of all products: as they are for the first two, and transposed for
// the last. A task packs both forms of its rows once, into a panel, for all its blocks. It writes
// the weights as right operands.
// While the processor computes the weights of a chunk of rows, the unit multiplies: the scores of
// the next chunk, and the sums of the chunk before.
//   FORWARD       the result; else gradients
//   KEYS_IN_LANES the gradients of keys and values; else that of the queries
//   CHUNK         rows of a chunk, a multiple of 32
// Defines and Problem: sdpa.clh, matrix_unit_amx.clh. Grid: (tasks).
#define WIDTH 16
#define NV 2
#define SPLITS 0
#include "sdpa.clh"
#include "matrix_unit_amx.clh"
#include "matrix_unit_amx_pack.clh"
#include "sdpa_lanes_cpu.clh"

#define STEPS(size) DIVIDE_UP(size, BLOCK)  // UNIT_K is 32, too
#define BLOCK_WORDS (BLOCK * BLOCK)
#define PANEL_WORDS(size) (STEPS(size) * STEP_WORDS)  // of 32 rows
#define LOAD_FLOATS(from) as_float16(LOAD_LINE(from))
#define STORE_FLOATS(value, to) STORE_LINE(as_uint16(value), to)
#define SEPARATE static __attribute__((noinline))
#define ROWS_AT_ONCE 4  // of which a random draw has the words, for lanes of queries

#ifdef FORWARD
#define HAS_D_SUMS 0
#define HAS_DV_SUMS 1
#else
#define HAS_D_SUMS 1
#ifdef KEYS_IN_LANES
#define HAS_DV_SUMS 1
#else
#define HAS_DV_SUMS 0
#endif
#endif

// Items are shared by `tasks` tasks. `parts` items share the blocks of a head of keys: block b is
// part b % parts. Where the rows need several panels, the sums of all blocks of an item are kept.
typedef struct {
  long task_words;
  int panel_rows;  // a multiple of CHUNK
  int parts, items, tasks;
} Shares;

// A task's memory. Panels of rows; a block's lanes; two chunks of scores and of weights.
typedef struct {
  __global uint *d_rows, *d_across, *d_lanes;
  __global uint *dv_rows, *dv_across, *dv_lanes;
  __global uint *scores, *slopes, *weight_pairs, *slope_pairs;
  __global uint *row_logs, *row_deltas, *spare, *states;
} Memory;
#define CHUNK_WORDS (CHUNK * LANES)
// The sums of a block, and the greatest scores and totals of its lanes.
#define STATE_WORDS \
  ((HAS_D_SUMS * STEPS(D) + HAS_DV_SUMS * STEPS(DV)) * BLOCK_WORDS + 2 * LANES)

ALWAYS_INLINE __global uint *take(__global uint **next, const long words) {
  __global uint *taken = *next;
  *next += words;
  return taken;
}

// sdpa_unit.cpp has the sum of these sizes.
ALWAYS_INLINE Memory memory_of(__global uint *next, const int panel_rows) {
  const int blocks = panel_rows / BLOCK;
  Memory m;
  m.d_rows = take(&next, blocks * PANEL_WORDS(D));
  m.d_lanes = take(&next, PANEL_WORDS(D));
  m.dv_across = take(&next, HAS_DV_SUMS * blocks * PANEL_WORDS(DV));
  m.scores = take(&next, 2 * CHUNK_WORDS);
  m.weight_pairs = take(&next, HAS_DV_SUMS * CHUNK_WORDS);
#ifndef FORWARD
  m.d_across = take(&next, blocks * PANEL_WORDS(D));
  m.dv_rows = take(&next, blocks * PANEL_WORDS(DV));
  m.dv_lanes = take(&next, PANEL_WORDS(DV));
  m.slopes = take(&next, 2 * CHUNK_WORDS);
  m.slope_pairs = take(&next, CHUNK_WORDS);
  m.row_logs = take(&next, panel_rows);
  m.row_deltas = take(&next, panel_rows);
#endif
  m.spare = take(&next, SPARE_WORDS);
  m.states = next;
  return m;
}

// ---- packing ----
// SEPARATE functions are compiled once: inlined, they would take a third of the compiler's time.

SEPARATE void pack_rows(__global uint *to, const __global ushort *from, const long ld,
                        const int rows, const int size, __global uint *spare) {
  for (int r = 0; r < rows; r += BLOCK)
    for (int k = 0; k < size; k += UNIT_K, to += STEP_WORDS)
      pack_left(to, from + r * ld + k, ld, min(UNIT_K, size - k), min(BLOCK, rows - r), true,
                spare);
}

// For each 32 elements of the rows, all rows. `next`: words from there to the next 32 elements.
SEPARATE void pack_rows_across(__global uint *to, const long next, const __global ushort *from,
                               const long ld, const int rows, const int size,
                               __global uint *spare) {
  for (int r = 0; r < rows; r += UNIT_K)
    for (int k = 0; k < size; k += BLOCK)
      pack_left(to + k / BLOCK * next + r / UNIT_K * STEP_WORDS, from + r * ld + k, ld,
                min(UNIT_K, rows - r), min(BLOCK, size - k), false, spare);
}

SEPARATE void pack_lanes(__global uint *to, const __global ushort *from, const long ld,
                         const int lanes, const int size, __global uint *spare) {
  for (int k = 0; k < size; k += UNIT_K, to += STEP_WORDS)
    pack_right(to, from + k, ld, min(UNIT_K, size - k), lanes, true, spare);
}

// ---- products ----

// `blocks` blocks of sums, of `steps` steps each. `next`: words from the left operand of a block to
// that of the next.
typedef struct {
  const __global uint *left, *right;
  __global uint *sums;
  long next;
  int blocks, steps;
  bool continues;
} Product;

typedef struct {
  Product products[4];
  int count;
  int product, block, step;  // the next one
  int all, left;             // steps
  int due;
} Queue;

ALWAYS_INLINE void add_product(Queue *q, const __global uint *left, const long next,
                               const __global uint *right, __global uint *sums, const int blocks,
                               const int steps, const bool continues) {
  const Product product = {left, right, sums, next, blocks, steps, continues};
  q->products[q->count++] = product;
  q->all += blocks * steps;
  q->left = q->all;
}

ALWAYS_INLINE void clear_queue(Queue *q) {
  q->count = q->product = q->block = q->step = q->all = q->left = q->due = 0;
}

ALWAYS_INLINE void multiply_step(Tiles *tiles, Queue *q) {
  const Product *p = &q->products[q->product];
  __global uint *sums = p->sums + q->block * BLOCK_WORDS;
  if (q->step == 0) {
    if (p->continues) {
      tiles_load(tiles, sums);
    } else {
      tiles_zero(tiles);
    }
  }
  const __global uint *left = p->left + q->block * p->next + q->step * STEP_WORDS;
  tiles_multiply(tiles, (const __global uchar *)left, 64, p->right + q->step * STEP_WORDS);
  --q->left;
  if (++q->step < p->steps) return;
  tiles_store(tiles, sums);
  q->step = 0;
  if (++q->block < p->blocks) return;
  q->block = 0;
  ++q->product;
}

// The share of the products for one of `times` times.
ALWAYS_INLINE void multiply_some(Tiles *tiles, Queue *q, const int times) {
  for (q->due += q->all; q->due >= times; q->due -= times) multiply_step(tiles, q);
}

ALWAYS_INLINE void multiply_rest(Tiles *tiles, Queue *q) {
  while (q->left > 0) multiply_step(tiles, q);
}

// The products of the chunk at row r of the panels, whose rows end at `end`, with its lanes.
ALWAYS_INLINE void add_scores(Queue *q, const Memory *m, const int r, const int end,
                              const int buffer) {
  const int blocks = DIVIDE_UP(min(CHUNK, end - r), BLOCK);
  add_product(q, m->d_rows + (long)(r / BLOCK) * PANEL_WORDS(D), PANEL_WORDS(D), m->d_lanes,
              m->scores + buffer * CHUNK_WORDS, blocks, STEPS(D), false);
#ifndef FORWARD
  add_product(q, m->dv_rows + (long)(r / BLOCK) * PANEL_WORDS(DV), PANEL_WORDS(DV), m->dv_lanes,
              m->slopes + buffer * CHUNK_WORDS, blocks, STEPS(DV), false);
#endif
}

// The products of its weights with the rows.
ALWAYS_INLINE void add_sums(Queue *q, const Memory *m, const long next, const int r,
                            const int end, const int buffer, __global uint *d_sums,
                            __global uint *dv_sums) {
  const int steps = DIVIDE_UP(min(CHUNK, end - r), UNIT_K);
#if HAS_DV_SUMS
  add_product(q, m->dv_across + r / UNIT_K * STEP_WORDS, next,
              m->weight_pairs + buffer * (CHUNK_WORDS / 2), dv_sums, STEPS(DV), steps, true);
#endif
#if HAS_D_SUMS
  add_product(q, m->d_across + r / UNIT_K * STEP_WORDS, next,
              m->slope_pairs + buffer * (CHUNK_WORDS / 2), d_sums, STEPS(D), steps, true);
#endif
}

// ---- arithmetic ----

#define LOG2_E 1.44269504f

// 2^x, within 3e-6 of it. 2^0 is 1.
ALWAYS_INLINE V power_of_two(const V x) {
#if UNIT_EMULATED
  return exp2(x);
#else
  V part, result;
  __asm__("vreduceps $9, %1, %0" : "=vr"(part) : "vr"(x));  // x - floor(x)
  V sum = fma((V)(1.342669e-2f), part, (V)(5.2242465e-2f));
  sum = fma(sum, part, (V)(2.4128021e-1f));
  sum = fma(sum, part, (V)(6.9304484e-1f));
  sum = fma(sum, part, (V)(1.0f));
  __asm__("vscalefps %2, %1, %0" : "=vr"(result) : "vr"(sum), "vr"(x));  // sum * 2^floor(x)
  return result;
#endif
}

// Pairs of bfloat16.
ALWAYS_INLINE uint16 pairs_of(const V low, const V high) {
#if UNIT_EMULATED
  return convert_uint16(bf16_from_floats(low)) | convert_uint16(bf16_from_floats(high)) << 16;
#else
  const uint16 order = LANE_NUMBERS(uint, 16) * 0x10001u + 0x100000u;  // 0, 16, 1, 17, ...
  uint16 pairs;
  __asm__("vcvtne2ps2bf16 %1, %2, %0\n\tvpermw %0, %3, %0"
          : "=&vr"(pairs)
          : "vr"(low), "vr"(high), "vr"(order));
  return pairs;
#endif
}

// Rows r to r + 3 of the weights of a chunk, for lanes 16 j and on, as right operands.
ALWAYS_INLINE void store_pairs(__global uint *pairs, const int r, const int j, const V *value) {
  __global uint *to =
      pairs + r / BLOCK * STEP_WORDS + j * TILE_WORDS + r % BLOCK / UNIT_PER_WORD * 16;
  STORE_LINE(pairs_of(value[0], value[1]), to);
  STORE_LINE(pairs_of(value[2], value[3]), to + 16);
}

typedef struct {
  long batch, head;
  long row;        // the first row's number
  int first_lane;  // its number
  int lanes;
  int rows, padded;  // of the chunk; padded to a multiple of 32
  bool hides;        // some keys, which are later than a query, or padding
} Chunk;

#ifdef KEYS_IN_LANES
#define IS_HIDDEN(row, lane) ((lane) > (INT)(row))
#else
#define IS_HIDDEN(row, lane) ((lane) < (INT)(row))
#endif

#ifdef HAS_BIAS
// scores = scale * scores + bias.
ALWAYS_INLINE void add_bias(__global uint *scores, __global const ushort *bias_matrix,
                            const Chunk *c, const Problem problem, __global uint *spare) {
#ifdef KEYS_IN_LANES
  const long row_step = BIAS_ROW, lane_step = BIAS_COLUMN;
#else
  const long row_step = BIAS_COLUMN, lane_step = BIAS_ROW;
#endif
  bias_matrix += c->row * row_step + c->first_lane * lane_step;
  for (int r0 = 0; r0 < c->rows; r0 += BLOCK) {
    const int rows = min(BLOCK, c->rows - r0);
    // Rows adjacent in memory: the words of 16 lanes have pairs of them.
    const bool pairs = row_step == 1 && lane_step != 0 && rows == BLOCK && c->lanes == LANES;
    FOR_VECTORS(j) {
      __global const ushort *from = bias_matrix + r0 * row_step + j * WIDTH * lane_step;
      if (pairs) transpose_words(spare, from, lane_step * sizeof(ushort));
      for (int r = 0; r < rows; ++r) {
        V bias;
        if (pairs) {
          const uint16 words = LOAD_LINE(spare + r / 2 * 16);
          bias = as_float16(r % 2 ? words & 0xFFFF0000u : words << 16);
        } else {
          bias = bias_of(from + r * row_step, lane_step, c->lanes - j * WIDTH);
        }
        __global uint *score = scores + (r0 + r) * LANES + j * WIDTH;
        STORE_FLOATS(LOAD_FLOATS(score) * problem.scale + bias, score);
      }
    }
  }
}
#endif

#ifdef DROPOUT
#define WORDS_OF(a, b, c, d)                                                               \
  (WORD)(words.w0.a, words.w1.a, words.w2.a, words.w3.a, words.w0.b, words.w1.b,           \
         words.w2.b, words.w3.b, words.w0.c, words.w1.c, words.w2.c, words.w3.c,           \
         words.w0.d, words.w1.d, words.w2.d, words.w3.d)

// The factors of rows r to r + 3 for lanes 16 j and on. The keys 4 n .. 4 n + 3 share a draw.
ALWAYS_INLINE void factors_of(V *kept, const Chunk *c, const int r, const int j,
                              const Problem problem) {
  const long row = c->row + r, lane = c->first_lane + j * WIDTH;
  const VEC(ulong) numbers = CONVERT(ulong, NUMBERS), counters = (ulong)COUNTERS_OF_ROW;
  const ulong start = HEAD_COUNTER(c->batch, c->head);
#ifdef KEYS_IN_LANES
  const Words words =
      philox(start + lane / 4 + numbers % 4 + (row + numbers / 4) * counters, problem.seed);
  const WORD word[4] = {WORDS_OF(s0, s1, s2, s3), WORDS_OF(s4, s5, s6, s7),
                        WORDS_OF(s8, s9, sa, sb), WORDS_OF(sc, sd, se, sf)};
#else
  const Words words = philox(start + row / 4 + (lane + numbers) * counters, problem.seed);
  const WORD word[4] = {words.w0, words.w1, words.w2, words.w3};
#endif
#pragma unroll
  for (int i = 0; i < ROWS_AT_ONCE; ++i)
    kept[i] = keep_factor(word[i], problem.threshold, problem.keep_scale);
}
#endif

#ifdef FORWARD

#ifdef HAS_BIAS
#define SCORE_SCALE 1.0f  // the scores have their scale
#else
#define SCORE_SCALE problem.scale  // positive: the greatest product has the greatest score
#endif

// Weights of a chunk. `factor`: of the sums so far.
ALWAYS_INLINE void weigh(Tiles *tiles, Queue *q, const Chunk *c, __global uint *scores,
                         __global uint *pairs, __global uint *state, V *factor,
                         const Problem problem) {
  const float to_power = SCORE_SCALE * LOG2_E;
  V top[NV], peak[NV], base[NV], total[NV];
  INT lane[NV];
  FOR_VECTORS(j) {
    lane[j] = (INT)(c->first_lane + j * WIDTH) + NUMBERS;
    peak[j] = top[j] = LOAD_FLOATS(state + j * WIDTH);
    total[j] = LOAD_FLOATS(state + LANES + j * WIDTH);
  }
  if (c->hides) {
    for (int r = 0; r < c->padded; ++r) {
      FOR_VECTORS(j) {
        __global uint *at = scores + r * LANES + j * WIDTH;
        V score = LOAD_FLOATS(at);
#ifdef CAUSAL
        score = IS_HIDDEN((int)c->row + r, lane[j]) ? (V)(-INFINITY) : score;
#endif
        if (r >= c->rows) score = (V)(-INFINITY);
        STORE_FLOATS(score, at);
        peak[j] = score > peak[j] ? score : peak[j];
      }
    }
  } else {
    for (int r = 0; r < c->padded; ++r) {
      FOR_VECTORS(j) {
        const V score = LOAD_FLOATS(scores + r * LANES + j * WIDTH);
        peak[j] = score > peak[j] ? score : peak[j];  // a NaN gets into the total, not here
      }
    }
  }
  FOR_VECTORS(j) {
    base[j] = peak[j] == (V)(-INFINITY) ? (V)(0.0f) : peak[j];
    factor[j] = power_of_two((top[j] - base[j]) * to_power);
    total[j] *= factor[j];
  }
  for (int r = 0; r < c->padded; r += ROWS_AT_ONCE) {
    multiply_some(tiles, q, c->padded / ROWS_AT_ONCE);
    FOR_VECTORS(j) {
      V weight[ROWS_AT_ONCE];
#pragma unroll
      for (int i = 0; i < ROWS_AT_ONCE; ++i) {
        const V score = LOAD_FLOATS(scores + (r + i) * LANES + j * WIDTH);
        weight[i] = power_of_two((score - base[j]) * to_power);
        total[j] += weight[i];
      }
#ifdef DROPOUT
      V kept[ROWS_AT_ONCE];
      factors_of(kept, c, r, j, problem);
#pragma unroll
      for (int i = 0; i < ROWS_AT_ONCE; ++i) weight[i] *= kept[i];
#endif
      store_pairs(pairs, r, j, weight);
    }
  }
  FOR_VECTORS(j) {
    STORE_FLOATS(peak[j], state + j * WIDTH);
    STORE_FLOATS(total[j], state + LANES + j * WIDTH);
  }
}

ALWAYS_INLINE void scale_sums(__global uint *sums, const V *factor) {
  for (int i = 0; i < STEPS(DV) * BLOCK; ++i)
    FOR_VECTORS(j) {
      __global uint *at = sums + i * LANES + j * WIDTH;
      STORE_FLOATS(LOAD_FLOATS(at) * factor[j], at);
    }
}

#else

// Weights of a chunk, and the gradients of its scores.
ALWAYS_INLINE void weigh(Tiles *tiles, Queue *q, const Chunk *c, const Memory *m,
                         const int buffer, const int panel_row, const V *logs, const V *deltas,
                         const Problem problem) {
  const __global uint *scores = m->scores + buffer * CHUNK_WORDS;
  const __global uint *slopes = m->slopes + buffer * CHUNK_WORDS;
  __global uint *slope_pairs = m->slope_pairs + buffer * (CHUNK_WORDS / 2);
  INT lane[NV];
  FOR_VECTORS(j) lane[j] = (INT)(c->first_lane + j * WIDTH) + NUMBERS;
  for (int r = 0; r < c->padded; r += ROWS_AT_ONCE) {
    multiply_some(tiles, q, c->padded / ROWS_AT_ONCE);
    FOR_VECTORS(j) {
      V weight[ROWS_AT_ONCE], slope[ROWS_AT_ONCE];
#ifdef DROPOUT
      V kept[ROWS_AT_ONCE];
      factors_of(kept, c, r, j, problem);
#endif
#pragma unroll
      for (int i = 0; i < ROWS_AT_ONCE; ++i) {
#ifdef KEYS_IN_LANES
        const V log_sum = (V)(as_float(m->row_logs[panel_row + r + i]));
        const V delta = (V)(as_float(m->row_deltas[panel_row + r + i]));
#else
        const V log_sum = logs[j], delta = deltas[j];
#endif
        V score = LOAD_FLOATS(scores + (r + i) * LANES + j * WIDTH);
#ifndef HAS_BIAS
        score *= problem.scale;
#endif
        weight[i] = power_of_two((score - log_sum) * LOG2_E);
        if (c->hides) {
#ifdef CAUSAL
          weight[i] = IS_HIDDEN((int)c->row + r + i, lane[j]) ? (V)(0.0f) : weight[i];
#endif
          if (r + i >= c->rows) weight[i] = (V)(0.0f);
        }
        slope[i] = LOAD_FLOATS(slopes + (r + i) * LANES + j * WIDTH);
#ifdef DROPOUT
        slope[i] = weight[i] * (slope[i] * kept[i] - delta);
        weight[i] *= kept[i];
#else
        slope[i] = weight[i] * (slope[i] - delta);
#endif
      }
      store_pairs(slope_pairs, r, j, slope);
#if HAS_DV_SUMS
      store_pairs(m->weight_pairs + buffer * (CHUNK_WORDS / 2), r, j, weight);
#endif
    }
  }
}
#endif

// Lane number l of the sums, times factor[l], is row number l of the matrix.
SEPARATE void store_lanes(__global MEM(DT) *matrix, const long stride, const int lanes,
                          const int size, const __global uint *sums, const V *factor,
                          __global uint *spare) {
  const float *factors = (const float *)factor;
  for (int j = 0; j < lanes; j += WIDTH)
    for (int k = 0; k < size; k += WIDTH) {
      transpose_words(spare, sums + k * LANES + j, LANES * sizeof(uint));
      for (int l = 0; l < min(WIDTH, lanes - j); ++l) {
        __global MEM(DT) *to = matrix + (j + l) * stride;
        const V value = LOAD_FLOATS(spare + l * WIDTH) * factors[j + l];
        if (size - k >= WIDTH) {
          STOREV(DT, to, k, value);
        } else {
          float some[WIDTH];
          VSTORE(value, some, 0);
          for (int i = 0; i < size - k; ++i) STORE(DT, to, k + i, some[i]);
        }
      }
    }
}

#define STORE_LANES(which, x, head, size, sums, factor)                                        \
  store_lanes(OUT_MATRIX(which, x, batch, head) + c.first_lane * ROW(which), ROW(which), c.lanes, \
              size, sums, factor, m.spare);

// ---- kernels ----

// What rows and lanes are, and how many heads of them share a head of keys.
#ifdef KEYS_IN_LANES
#define LANE_COUNT problem.keys
#define ROW_COUNT problem.queries
#define ROW_HEADS problem.group
#define LANE_HEADS 1
#else
#define LANE_COUNT problem.queries
#define ROW_HEADS 1
#define LANE_HEADS problem.group
#ifdef CAUSAL
#define ROW_COUNT min(problem.keys, problem.queries)
#else
#define ROW_COUNT problem.keys
#endif
#endif

#ifdef FORWARD
#define KERNEL attention_unit_forward
#define RESULTS TENSOR(out), TENSOR(log_sum)
#define GRADIENTS
#elif defined(KEYS_IN_LANES)
#define KERNEL attention_unit_grad_key
#define RESULTS TENSOR(grad_key), TENSOR(grad_value)
#define GRADIENTS CTENSOR(grad), CTENSOR(log_sum), CTENSOR(delta),
#else
#define KERNEL attention_unit_grad_query
#define RESULTS TENSOR(grad_query)
#define GRADIENTS CTENSOR(grad), CTENSOR(log_sum), CTENSOR(delta),
#endif

TASK __kernel void KERNEL(RESULTS, CTENSOR(query), CTENSOR(key), CTENSOR(value),
                          BIAS_ARGUMENT GRADIENTS const Problem problem, TENSOR(scratch),
                          const Shares shares) {
  const Memory m = memory_of(PTR(uint, scratch) + get_global_id(0) * shares.task_words,
                             shares.panel_rows);
  const long next = shares.panel_rows / UNIT_K * STEP_WORDS;  // in a panel across
  const long key_heads = problem.heads / problem.group;
  const long blocks_of_head = DIVIDE_UP(LANE_COUNT, LANES), blocks = blocks_of_head * LANE_HEADS;
  const long panels_of_head = DIVIDE_UP(ROW_COUNT, shares.panel_rows);
  const long panels = panels_of_head * ROW_HEADS;
  Tiles tiles;
  tiles_take(&tiles);
  for (long item = get_global_id(0); item < shares.items; item += shares.tasks) {
    const long batch = item / shares.parts / key_heads, key_head = item / shares.parts % key_heads;
    for (long panel = 0; panel < panels; ++panel) {
      const long row0 = panel % panels_of_head * shares.panel_rows;
      const int rows = min((long)shares.panel_rows, ROW_COUNT - row0);
#ifdef KEYS_IN_LANES
      const long row_head = key_head * problem.group + panel / panels_of_head;
      const __global ushort *d_rows = MATRIX(QUERY, query, batch, row_head) + row0 * ROW(QUERY);
      const __global ushort *dv_rows = MATRIX(GRAD, grad, batch, row_head) + row0 * ROW(GRAD);
      const long d_ld = ROW(QUERY), dv_ld = ROW(GRAD);
      const long first_of_rows = (batch * problem.heads + row_head) * problem.queries + row0;
      for (int r = 0; r < ROUND_UP(rows, BLOCK); ++r) {
        const bool is_there = r < rows;
        m.row_logs[r] = as_uint(is_there ? CPTR(float, log_sum)[first_of_rows + r] : INFINITY);
        m.row_deltas[r] = as_uint(is_there ? CPTR(float, delta)[first_of_rows + r] : 0.0f);
      }
#else
      const __global ushort *d_rows = MATRIX(KEY, key, batch, key_head) + row0 * ROW(KEY);
      const __global ushort *dv_rows = MATRIX(VALUE, value, batch, key_head) + row0 * ROW(VALUE);
      const long d_ld = ROW(KEY), dv_ld = ROW(VALUE);
#endif
      pack_rows(m.d_rows, d_rows, d_ld, rows, D, m.spare);
#if HAS_D_SUMS
      pack_rows(m.dv_rows, dv_rows, dv_ld, rows, DV, m.spare);
      pack_rows_across(m.d_across, next, d_rows, d_ld, rows, D, m.spare);
#endif
#if HAS_DV_SUMS
      pack_rows_across(m.dv_across, next, dv_rows, dv_ld, rows, DV, m.spare);
#endif
      __global uint *state = m.states;
      for (long b = item % shares.parts; b < blocks; b += shares.parts) {
        Chunk c;
        c.batch = batch;
        c.first_lane = b % blocks_of_head * LANES;
        c.lanes = min((long)LANES, LANE_COUNT - c.first_lane);
        int start = 0, end = rows;
#ifdef KEYS_IN_LANES
        c.head = row_head;
        const __global ushort *d_lanes = MATRIX(KEY, key, batch, key_head);
        const __global ushort *dv_lanes = MATRIX(VALUE, value, batch, key_head);
        const long d_lane_ld = ROW(KEY), dv_lane_ld = ROW(VALUE);
#ifdef CAUSAL
        start = clamp(c.first_lane - row0, 0L, (long)rows);
#endif
#else
        c.head = key_head * problem.group + b / blocks_of_head;
        const __global ushort *d_lanes = MATRIX(QUERY, query, batch, c.head);
        const long d_lane_ld = ROW(QUERY);
        const long first_of_lanes =
            (batch * problem.heads + c.head) * problem.queries + c.first_lane;
#ifdef CAUSAL
        end = clamp(c.first_lane + LANES - row0, 0L, (long)rows);
#endif
#ifndef FORWARD
        const __global ushort *dv_lanes = MATRIX(GRAD, grad, batch, c.head);
        const long dv_lane_ld = ROW(GRAD);
#endif
#endif
        BIAS_MATRIX(batch, c.head)
        __global uint *d_sums = state + 2 * LANES;
        __global uint *dv_sums = d_sums + HAS_D_SUMS * STEPS(D) * BLOCK_WORDS;
        if (panel == 0) {
          FOR_VECTORS(j) {
            STORE_FLOATS((V)(-INFINITY), state + j * WIDTH);
            STORE_FLOATS((V)(0.0f), state + LANES + j * WIDTH);
          }
          for (int i = 2 * LANES; i < STATE_WORDS; i += 16) STORE_LINE((uint16)(0), state + i);
        }
        pack_lanes(m.d_lanes, d_lanes + c.first_lane * d_lane_ld, d_lane_ld, c.lanes, D, m.spare);
        V factor[NV];
#ifndef FORWARD
        pack_lanes(m.dv_lanes, dv_lanes + c.first_lane * dv_lane_ld, dv_lane_ld, c.lanes, DV,
                   m.spare);
        V logs[NV], deltas[NV];
#ifndef KEYS_IN_LANES
        FOR_VECTORS(j) {
          const long at = first_of_lanes + j * WIDTH;
          LOAD_LANES(f32, logs[j], CPTR(float, log_sum) + at, 1, c.lanes - j * WIDTH, INFINITY)
          LOAD_LANES(f32, deltas[j], CPTR(float, delta) + at, 1, c.lanes - j * WIDTH, 0.0f)
        }
#endif
#endif
        // In iteration r: the weights of the chunk at row r, and the products of its neighbours.
        for (int r = start - CHUNK; r - CHUNK < end; r += CHUNK) {
          const int buffer = (r - start) / CHUNK & 1;
          Queue q;
          clear_queue(&q);
          if (r > start) add_sums(&q, &m, next, r - CHUNK, end, !buffer, d_sums, dv_sums);
          if (r + CHUNK < end) add_scores(&q, &m, r + CHUNK, end, !buffer);
          if (r >= start && r < end) {
            c.row = row0 + r;
            c.rows = min(CHUNK, end - r);
            c.padded = ROUND_UP(c.rows, BLOCK);
            c.hides = c.rows < c.padded;
#if defined(CAUSAL) && defined(KEYS_IN_LANES)
            c.hides = c.hides || c.row < c.first_lane + LANES;
#elif defined(CAUSAL)
            c.hides = c.hides || c.row + c.rows > c.first_lane;
#endif
#ifdef HAS_BIAS
            add_bias(m.scores + buffer * CHUNK_WORDS, bias_matrix, &c, problem, m.spare);
#endif
#ifdef FORWARD
            weigh(&tiles, &q, &c, m.scores + buffer * CHUNK_WORDS,
                  m.weight_pairs + buffer * (CHUNK_WORDS / 2), state, factor, problem);
            multiply_rest(&tiles, &q);
            if (panel > 0 || r > start) scale_sums(dv_sums, factor);
#else
            weigh(&tiles, &q, &c, &m, buffer, r, logs, deltas, problem);
#endif
          }
          multiply_rest(&tiles, &q);
        }
        if (panel == panels - 1) {
#ifdef FORWARD
          V logs[NV];
          FOR_VECTORS(j) {
            // A query with no visible key: its result is zero, and so are its weights in the
            // backward pass.
            const V total = LOAD_FLOATS(state + LANES + j * WIDTH);
            const INT empty = total == (V)(0.0f);
            const V top = LOAD_FLOATS(state + j * WIDTH) * SCORE_SCALE;
            logs[j] = empty ? (V)(INFINITY) : top + log(total);
            factor[j] = empty ? (V)(0.0f) : 1.0f / total;
          }
          for (int l = 0; l < c.lanes; ++l)
            PTR(float, log_sum)[first_of_lanes + l] = ((const float *)logs)[l];
          STORE_LANES(OUT, out, c.head, DV, dv_sums, factor)
#else
          FOR_VECTORS(j) factor[j] = (V)(problem.scale);
#ifdef KEYS_IN_LANES
          STORE_LANES(GRAD_KEY, grad_key, key_head, D, d_sums, factor)
          FOR_VECTORS(j) factor[j] = (V)(1.0f);
          STORE_LANES(GRAD_VALUE, grad_value, key_head, DV, dv_sums, factor)
#else
          STORE_LANES(GRAD_QUERY, grad_query, c.head, D, d_sums, factor)
#endif
#endif
        }
        if (panels > 1) state += STATE_WORDS;
      }
    }
  }
  tiles_release();
}
