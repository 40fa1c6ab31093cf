// Matrix products by the matrix unit of a CPU (matrix_unit_amx.clh): out = activation(alpha * op(A)
// op(B) + beta * C + residual), for a batch of matrices.
//
// Defines (in addition to those of matrix_unit_amx.clh, epilogue.clh, and element.clh for the
// result)
//   TRANS_A, TRANS_B, HAS_C, HAS_RESIDUAL   as for gemm_cpu.cl
//   EXCHANGED   0: the left operand of the tiles is op(A), the right one op(B). 1: they are the
//               transposes of op(B) and op(A), and a block of sums is stored transposed
//   SPLITS      1: A and B are float16, 2: float32 (matrix_unit_amx_pack.clh). Each number is split
//               into two pieces of bfloat16, high + low, and the pieces are multiplied
//   AT_ONCE     steps along the depth for which 32 rows of the left operand stay in the first level
//               cache
//
// Kernel
//   gemm_unit_cpu  grid (tasks). An item is a panel, `columns` columns of the right operand, by
//                  `rows` rows of the left one, of a matrix of the batch. Tasks take one
//                  item after another (task_items.clh). Any m, n, k >= 1.
//
// C may be `out` itself; other overlaps are not allowed.
//
// A task packs `depth` rows of its panel, which then stay in the second level cache, and multiplies
// 32 rows of the left operand at a time by them. Sums over more than `depth` products continue in
// the task's part of `scratch`: `task_words` words (scratch_words() in gemm_unit_cpu.cpp).
#define VW 16
#define RIGHT_STREAMS
#include "element.clh"
#include "gemm_sizes.clh"
#include "matrix_unit_amx.clh"
#include "matrix_unit_amx_pack.clh"
#include "task_items.clh"

#define VEC CAT(COMPUTE, 16)
#define V VEC
#define V_LANES 16
#include "epilogue.clh"

#if EXCHANGED
#define LEFT_ALONG TRANS_B  // 1: the operand is contiguous along the depth
#define RIGHT_ALONG (!TRANS_A)
#else
#define LEFT_ALONG (!TRANS_A)
#define RIGHT_ALONG TRANS_B
#endif
#define STEP_LINES (LEFT_ALONG ? BLOCK : UNIT_K)  // lines in memory of a step of the left operand

// `rows` and `columns` are multiples of 32. `depth` is a multiple of UNIT_K, or all of k.
typedef struct {
  long task_words;
  int rows, columns, depth;
  int row_parts, panels, items;  // row_parts * panels items for each matrix
} Blocks;

typedef struct {
  __global STORE *out;  // a matrix of the batch, like c and residual
  __global const STORE *c, *residual;
  const GemmSizes *sizes;
  COMPUTE alpha, beta;
} Result;

// A vector of `count` elements that are `step` apart.
static inline VEC load_some(__global const STORE *from, const long step, const int count) {
  if (step == 1 && count >= 16) return LOAD_VEC(from);
  COMPUTE lane[16] = {0};
  for (int l = 0; l < min(count, 16); ++l) lane[l] = LOAD(from, l * step);
  return vload16(0, lane);
}

// Applies the epilogue to up to 16 sums of a row, and stores them.
static inline void finish_line(const Result *r, const uint16 bits, const long row,
                               const long column, const int count) {
  const GemmSizes *s = r->sizes;
  VEC value = r->alpha * CAT3(as_, COMPUTE, 16)(bits);
#if HAS_C
  value += r->beta * load_some(r->c + row * s->c_row + column * s->c_column, s->c_column, count);
#endif
#if HAS_RESIDUAL
  value += load_some(r->residual + row * s->residual_row + column * s->residual_column,
                     s->residual_column, count);
#endif
  value = ACTIVATE(value);
  __global STORE *out = r->out + row * s->ld_out + column;
  if (count >= 16) {
    STORE_VEC(value, out);
  } else {
    COMPUTE lane[16];
    vstore16(value, 0, lane);
    for (int l = 0; l < count; ++l) STORE_TO(out, l, lane[l]);
  }
}

// `row` and `column` are indices of the left and right operand. With EXCHANGED, the element is in
// row `column` and column `row` of the result.
ALWAYS_INLINE void finish_block(const Result *r, __global uint *block, const long row,
                                const long column, const int rows, const int columns,
                                __global uint *spare) {
#if EXCHANGED
  for (int j = 0; j < columns; j += 16)
    for (int i = 0; i < rows; i += 16) {
      transpose_words(spare, block + i * BLOCK + j, BLOCK * sizeof(uint));
      for (int l = 0; l < min(16, columns - j); ++l)
        finish_line(r, LOAD_LINE(spare + l * 16), column + j + l, row + i, rows - i);
    }
#else
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; j += 16)
      finish_line(r, LOAD_LINE(block + i * BLOCK + j), row + i, column + j, columns - j);
#endif
}

// Prefetches the lines of a block of the result, for when it is finished.
ALWAYS_INLINE void prefetch_block(const Result *r, const long row, const long column,
                                  const int rows, const int columns) {
  const long first = EXCHANGED ? column : row, along = EXCHANGED ? row : column;
  for (int i = 0; i < (EXCHANGED ? columns : rows); ++i) {
    PREFETCH_TO_WRITE(r->out + (first + i) * r->sizes->ld_out + along);
#if HAS_RESIDUAL
    PREFETCH_RESIDUAL(r->residual + (first + i) * r->sizes->residual_row +
                      along * r->sizes->residual_column);
#endif
  }
}

// Packs `depth` rows by `columns` columns of the right operand into blocks of 32 columns; a block
// has its steps in order. Reads the operand along its rows.
ALWAYS_INLINE void pack_panel(__global uint *panel, const __global SOURCE *right,
                              const long ld, const int depth, const int columns,
                              __global uint *spare) {
  const int steps = DIVIDE_UP(depth, UNIT_K), blocks = DIVIDE_UP(columns, BLOCK);
  for (int i = 0; i < steps * blocks; ++i) {
    const int step = RIGHT_ALONG ? i % steps : i / blocks;
    const int block = RIGHT_ALONG ? i / steps : i % blocks;
    const int k = step * UNIT_K, j = block * BLOCK;
    pack_right(panel + ((long)block * steps + step) * PIECES * STEP_WORDS,
               right + (RIGHT_ALONG ? j * ld + k : k * ld + j), ld, min(UNIT_K, depth - k),
               min(BLOCK, columns - j), RIGHT_ALONG, spare);
  }
}

// The item of a task, and the task's memory.
typedef struct {
  const __global SOURCE *left, *right;  // the matrix of the batch, and the panel's columns in it
  long ld_left, ld_right;
  long first_row, last_row, first_column;
  int columns;
  int panel_columns;  // columns for which the panel has memory
  bool continues;     // the sums of all rows stay in memory until the next part
  __global uint *panel, *copy, *spare, *block, *sums;
} Item;

// A part of the depth: `depth` rows of the panel, from k0 on. `is_last`: no products follow.
typedef struct {
  long k0;
  int depth, steps;
  bool is_last;
} Part;

// A piece of the left operand: 32 rows for AT_ONCE steps.
typedef struct {
  const __global uchar *start;
  const __global SOURCE *from;
  long pitch, along;  // bytes from row to row, and from step to step
  long row;
  int rows, first_step, steps;
  int fetched;  // lines of the next rows to prefetch into the second level cache for each column
} Rows;

ALWAYS_INLINE Rows rows_of(const Item *item, const Part *part, const long row,
                           const int first_step) {
  const int k = first_step * UNIT_K;
  const long ld = item->ld_left, k_step = LEFT_ALONG ? 1 : ld;
  Rows r;
  r.row = row;
  r.rows = min((long)BLOCK, item->last_row - row);
  r.first_step = first_step;
  r.steps = min(AT_ONCE, part->steps - first_step);
  r.from = item->left + row * (LEFT_ALONG ? ld : 1) + (part->k0 + k) * k_step;
  // Reads whole tiles in place, unless rows are a multiple of 2 KiB apart: such rows share so few
  // sets of the first level cache that it cannot keep 32 of them.
  const bool copies = SPLITS || !LEFT_ALONG || r.rows < BLOCK || part->depth % UNIT_K ||
                      ld * sizeof(SOURCE) % 2048 == 0;
  for (int s = 0; copies && s < r.steps; ++s)
    pack_left(item->copy + s * PIECES * STEP_WORDS, r.from + s * UNIT_K * k_step, ld,
              min(UNIT_K, part->depth - k - s * UNIT_K), r.rows, LEFT_ALONG, item->spare);
  r.start = copies ? (const __global uchar *)item->copy : (const __global uchar *)r.from;
  r.pitch = copies ? 64 : ld * sizeof(UNIT_ELEMENT);
  r.along = copies ? PIECES * STEP_WORDS * sizeof(uint) : 64;
  const bool fetches = row + 2 * BLOCK <= item->last_row;
  r.fetched = fetches ? STEP_LINES / min(STEP_LINES, DIVIDE_UP(item->columns, BLOCK)) : 0;
  return r;
}

// Multiplies a piece of the rows with a piece of block number `column` of 32 columns.
ALWAYS_INLINE void multiply(Tiles *tiles, const Item *item, const Rows *r, const Part *part,
                            const long column, const int left_piece, const int right_piece) {
  const long step = column * part->steps + r->first_step;
  const __global uint *right = item->panel + (step * PIECES + right_piece) * STEP_WORDS;
  const __global uchar *left = r->start + left_piece * STEP_WORDS * sizeof(uint);
  const int fetched = left_piece || right_piece ? 0 : r->fetched;
  const long ld = item->ld_left, line = min((long)STEP_LINES - 1, column * r->fetched);
  const __global SOURCE *next = r->from + line * ld + BLOCK * (LEFT_ALONG ? ld : 1);
  for (int s = 0; s < r->steps; ++s, left += r->along, right += PIECES * STEP_WORDS) {
    tiles_multiply(tiles, left, r->pitch, right);
    for (int i = 0; i < fetched; ++i) PREFETCH_TO_L2(next + i * ld);
    next += UNIT_K * (LEFT_ALONG ? 1 : ld);
  }
}

// Begins the sums of a block with 0, or continues with the sums in memory.
ALWAYS_INLINE void begin_sums(Tiles *tiles, const bool begins, const __global uint *sums) {
  if (begins) {
    tiles_zero(tiles);
  } else {
    tiles_load(tiles, sums);
  }
}

#if SPLITS
// block = high + low. `high` are the sums of the products of two high pieces, and `low` the sums of
// the other products. A low sum is NaN if an infinity was multiplied by a low piece of 0. Where a
// high sum is not finite, the low sum is not added.
ALWAYS_INLINE void add_pieces(__global uint *block) {
  for (int i = 0; i < BLOCK_WORDS; i += 16) {
    const float16 high = as_float16(LOAD_LINE(block + i));
    const float16 low = as_float16(LOAD_LINE(block + BLOCK_WORDS + i));
    STORE_LINE(as_uint16(select(high, high + low, isfinite(high))), block + i);
  }
}
#endif

// Computes all columns of the panel.
ALWAYS_INLINE void multiply_rows(Tiles *tiles, const Result *result, const Item *item,
                                 const Rows *r, const Part *part) {
  const bool begins = part->k0 == 0 && r->first_step == 0;
  const bool ends = part->is_last && r->first_step + r->steps == part->steps;
  const long row_of_sums = item->continues ? (r->row - item->first_row) / BLOCK : 0;
  __global uint *sums =
      item->sums + row_of_sums * (item->panel_columns / BLOCK) * PIECES * BLOCK_WORDS;
  for (int j = 0; j < item->columns; j += BLOCK, sums += PIECES * BLOCK_WORDS) {
    const long column = item->first_column + j;
    const int columns = min(BLOCK, item->columns - j);
    __global uint *to = ends ? item->block : sums;
    if (ends) prefetch_block(result, r->row, column, r->rows, columns);
    begin_sums(tiles, begins, sums);
    multiply(tiles, item, r, part, j / BLOCK, 0, 0);
    tiles_store(tiles, to);
#if SPLITS
    begin_sums(tiles, begins, sums + BLOCK_WORDS);
    multiply(tiles, item, r, part, j / BLOCK, 0, 1);
    multiply(tiles, item, r, part, j / BLOCK, 1, 0);
    // Products of two low pieces are left out: they are below 2^-18 of the whole product (2^-16 for
    // float32). That is less than float16 can show, and float32_matmul_precision allows it.
    if (SPLITS == 1 && sizeof(STORE) > 2) multiply(tiles, item, r, part, j / BLOCK, 1, 1);
    tiles_store(tiles, to + BLOCK_WORDS);
    if (ends) add_pieces(to);
#endif
    if (ends)
      finish_block(result, item->block, r->row, column, r->rows, columns, item->spare);
  }
}

TASK __kernel void gemm_unit_cpu(TENSOR(out), CTENSOR(a), CTENSOR(b), CTENSOR(c),
                                 CTENSOR(residual), const GemmSizes sizes, const COMPUTE alpha,
                                 const COMPUTE beta, TENSOR(counter), TENSOR(scratch),
                                 const Blocks blocks) {
  const long m = EXCHANGED ? sizes.n : sizes.m, n = EXCHANGED ? sizes.m : sizes.n;
  Item item;
  item.ld_left = EXCHANGED ? sizes.ld_b : sizes.ld_a;
  item.ld_right = EXCHANGED ? sizes.ld_a : sizes.ld_b;
  item.continues = sizes.k > blocks.depth;
  item.panel_columns = blocks.columns;
  item.panel = PTR(uint, scratch) + get_global_id(0) * blocks.task_words;
  item.copy = item.panel + (long)DIVIDE_UP(blocks.depth, UNIT_K) * blocks.columns * PIECES * 16;
  item.spare = item.copy + AT_ONCE * PIECES * STEP_WORDS;
  item.block = item.spare + SPARE_WORDS;
  item.sums = item.block + PIECES * BLOCK_WORDS;

  Tiles tiles;
  tiles_take(&tiles);
  FOR_ITEMS(i, blocks.items) {
    const int row_part = i % blocks.row_parts, panel = i / blocks.row_parts;
    const long batch = panel / blocks.panels;
    const __global SOURCE *of_a = CPTR(SOURCE, a) + batch * sizes.a_batch;
    const __global SOURCE *of_b = CPTR(SOURCE, b) + batch * sizes.b_batch;
    item.first_row = (long)row_part * blocks.rows;
    item.last_row = min(m, item.first_row + blocks.rows);
    item.first_column = (long)(panel % blocks.panels) * blocks.columns;
    item.columns = min((long)blocks.columns, n - item.first_column);
    item.left = EXCHANGED ? of_b : of_a;
    item.right =
        (EXCHANGED ? of_a : of_b) + item.first_column * (RIGHT_ALONG ? item.ld_right : 1);
    const Result result = {PTR(STORE, out) + batch * sizes.out_batch,
                           CPTR(STORE, c) + batch * sizes.c_batch,
                           CPTR(STORE, residual) + batch * sizes.residual_batch,
                           &sizes,
                           alpha,
                           beta};
    for (long k0 = 0; k0 < sizes.k; k0 += blocks.depth) {
      const int depth = min((long)blocks.depth, sizes.k - k0);
      const Part part = {k0, depth, DIVIDE_UP(depth, UNIT_K), k0 + depth >= sizes.k};
      pack_panel(item.panel, item.right + k0 * (RIGHT_ALONG ? 1 : item.ld_right), item.ld_right,
                 depth, item.columns, item.spare);
      for (long row = item.first_row; row < item.last_row; row += BLOCK) {
        for (int step = 0; step < part.steps; step += AT_ONCE) {
          const Rows rows = rows_of(&item, &part, row, step);
          multiply_rows(&tiles, &result, &item, &rows, &part);
        }
      }
    }
  }
  tiles_release();
}
