// Attention of the CPU family by the matrix unit (matrix_unit_amx.clh). As in sdpa_cpu.cl, queries
// are in lanes (keys, for the gradients of keys and values), and the kernel loops over the rows of
// the other side. A block has 32 lanes. With the rows r, of Q and G or of K and V, and the lanes l:
//     scores[r][l] = row r of Q (K) * lane l of K (Q)      slopes[r][l]: of G (V) and V (G)
//     sums[i][l] += element i of row r * weight[r][l]
// The rows are the left operands of all products: unchanged for the first two, and transposed for
// the last. A task packs both forms of its rows once, into a panel, for all its blocks. It writes
// the weights as right operands. While the processor computes the weights of a chunk of rows, the
// unit multiplies: the scores of the next chunk, and the sums of the chunk before.
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
#include "task_items.clh"

#define STEPS(size) DIVIDE_UP(size, BLOCK)  // UNIT_K is 32, too
#define PANEL_WORDS(size) (STEPS(size) * STEP_WORDS)  // a block of 32 rows
#define LOAD_FLOATS(from) as_float16(LOAD_LINE(from))
#define STORE_FLOATS(value, to) STORE_LINE(as_uint16(value), to)
#define SEPARATE static __attribute__((noinline))
#define ROWS_AT_ONCE 4  // if queries are in lanes: a draw has random words for 4 rows

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

// Tasks take one item after another (task_items.clh). `parts` items share the blocks of a head of
// keys: block b belongs to part b % parts. If the rows need several panels, the sums of all blocks
// of an item are kept.
typedef struct {
  long task_words;
  int panel_rows;  // a multiple of CHUNK
  int parts, items;
  int unused;  // no padding at the end
} Shares;

// A task's memory: panels of rows, the lanes of a block, two chunks of scores and two of weights.
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

// scratch_words() in sdpa_unit.cpp is the sum of these sizes.
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

#include "sdpa_unit_products.clh"
#include "sdpa_unit_weights.clh"

// The matrices that rows and lanes come from, and how many of their heads share a head of keys.
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
                          BIAS_ARGUMENT GRADIENTS const Problem problem, TENSOR(counter),
                          TENSOR(scratch), const Shares shares) {
  const Memory m = memory_of(PTR(uint, scratch) + get_global_id(0) * shares.task_words,
                             shares.panel_rows);
  const long next = shares.panel_rows / UNIT_K * STEP_WORDS;  // in a transposed panel
  const long key_heads = problem.heads / problem.group;
  const long blocks_of_head = DIVIDE_UP(LANE_COUNT, LANES), blocks = blocks_of_head * LANE_HEADS;
  const long panels_of_head = DIVIDE_UP(ROW_COUNT, shares.panel_rows);
  const long panels = panels_of_head * ROW_HEADS;
  Tiles tiles;
  tiles_take(&tiles);
  FOR_ITEMS(item, shares.items) {
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
        // Iteration r computes the weights of the chunk at row r, and the products of the chunks
        // before and after it.
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
            // If a query sees no key, its result is 0, and so are its weights in the backward pass.
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
