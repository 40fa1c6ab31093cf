// Convolutions of channels_last bfloat16 by the matrix unit of a CPU (matrix_unit_amx.clh): a pass
// as conv_pass.clh defines it, and the weight gradient.
//
// Rows of tiles are pixels (conv_unit_pieces.clh), columns are channels of the result.
//
// Defines, besides those of matrix_unit_amx.clh, and of element.clh for bfloat16
//   AT_ONCE  steps at most between loads of the sums
//
// Kernels. Tasks take one item after another. Operands of several tiles are in the order of steps.
//   pack_unit_weights   grid (tasks). [group][32 rows][UNIT_K channels][tap]: right operands
//   conv_unit           grid (tasks). An item is a part of the positions and a panel of a group,
//                       `columns` rows of the pass, which are columns of the tiles
//   pack_unit_grads     grid (tasks). [group][32 rows][32 positions]: left operands, the gradients
//                       of the output
//   conv_unit_weight    grid (tasks). An item is a part of the positions and a panel, `columns`
//                       blocks of 32 channels of a tap. Sums: [part][group][32 rows][block]
//   unpack_unit_weights grid (rows of all groups): adds the parts
#define VW 16
#define RIGHT_STREAMS
#define SPLITS 0
#include "element.clh"
#include "conv_pass.clh"
#include "matrix_unit_amx.clh"
#include "matrix_unit_amx_pack.clh"
#include "conv_unit_pieces.clh"
#include "task_items.clh"

typedef struct {
  long task_words;  // words of scratch memory of a task
  int columns, positions, depth;
  int panels, parts, items;
  int line;     // positions that are split into pieces together: a line of the result, or all
  int pieces;   // the number of pieces in `line`
  int at_once;  // steps between loads of the sums
} Blocks;

// Stores the first `count` elements of a line.
ALWAYS_INLINE void store_elements(const uint16 line, __global ushort *to, const int count) {
  if (count >= BLOCK) {
    STORE_LINE(line, to);
    return;
  }
  uint words[16];
  vstore16(line, 0, words);
  for (int i = 0; i < count; ++i) to[i] = words[i / 2] >> i % 2 * 16;
}

TASK __kernel void pack_unit_weights(TENSOR(packed), CTENSOR(weight), const Pass pass,
                                     TENSOR(counter), TENSOR(scratch), const Blocks blocks) {
  const int steps = DIVIDE_UP(pass.channels, UNIT_K), row_blocks = DIVIDE_UP(pass.rows, BLOCK);
  const bool along = pass.weight_channel == 1;
  __global uint *spare = PTR(uint, scratch) + get_global_id(0) * blocks.task_words;
  FOR_ITEMS(i, blocks.items) {
    const int tap = i % pass.taps, block = i / pass.taps % row_blocks;
    const int group = i / pass.taps / row_blocks, first_row = block * BLOCK;
    const int row_of_taps = tap / pass.tap_count[2], x = tap % pass.tap_count[2];
    const int y = row_of_taps % pass.tap_count[1], z = row_of_taps / pass.tap_count[1];
    const __global ushort *from = CPTR(ushort, weight) + (long)group * pass.weight_group +
                                  (long)first_row * pass.weight_row + pass.weight_first +
                                  z * pass.weight_step[0] + y * pass.weight_step[1] +
                                  x * pass.weight_step[2];
    __global uint *to =
        PTR(uint, packed) + ((long)i / pass.taps * steps * pass.taps + tap) * STEP_WORDS;
    for (int s = 0; s < steps; ++s, to += pass.taps * STEP_WORDS)
      pack_right(to, from + (long)s * UNIT_K * pass.weight_channel,
                 along ? pass.weight_row : pass.weight_channel,
                 min(UNIT_K, pass.channels - s * UNIT_K), min(BLOCK, pass.rows - first_row), along,
                 spare);
  }
}

// Adds the bias to the sums of a piece, and stores them. `columns`: of the block, at most 32.
ALWAYS_INLINE void finish_piece(__global ushort *result, const long pitch, const Pass *pass,
                                const Piece *piece, const __global uint *sums,
                                const float16 low_bias, const float16 high_bias,
                                const int columns) {
  for (int r = 0; r < piece->count; ++r) {
    const Run *run = piece->runs + r;
    __global ushort *out = result + run->to * pitch;
    for (int i = 0; i < run->count; ++i, sums += BLOCK, out += pass->result_step[2] * pitch) {
      const uint16 line = bfloat16_line(as_float16(LOAD_LINE(sums)) + low_bias,
                                        as_float16(LOAD_LINE(sums + 16)) + high_bias);
      store_elements(line, out, columns);
    }
  }
}

ALWAYS_INLINE float16 bias_of(const __global ushort *bias, const int count) {
  float lane[16] = {0};
  for (int l = 0; l < min(count, 16); ++l) lane[l] = LOAD(bias, l);
  return vload16(0, lane);
}

// The pieces p and p + 1 of a pass, without those from `last` on.
ALWAYS_INLINE void find_pieces(Piece *pieces, const Pass *pass, const Source *source,
                               const Blocks *blocks, const long p, const long last) {
  const int of_piece = (blocks->line - 1) / blocks->pieces + 1;
  for (int h = 0; h < 2; ++h) {
    const int at = (p + h) % blocks->pieces * of_piece;
    const long q = (p + h) / blocks->pieces * blocks->line + at;
    find_runs(pieces + h, pass, source, q,
              p + h < last ? min((long)min(of_piece, blocks->line - at), pass->n - q) : 0);
  }
}

// The lines of the result are in the cache when its sums are finished.
ALWAYS_INLINE void prefetch_piece(const __global ushort *result, const long pitch,
                                  const Pass *pass, const Piece *piece) {
  for (int r = 0; r < piece->count; ++r)
    for (int i = 0; i < piece->runs[r].count; ++i)
      PREFETCH_TO_WRITE(result + (piece->runs[r].to + i * pass->result_step[2]) * pitch);
}

#define MOST_FETCHED 8  // lines of each span in a step

// Adds `steps` steps of the product of `rows` and `right`. Meanwhile, prefetches the spans that the
// next pieces read.
ALWAYS_INLINE void multiply(Tiles *tiles, const Rows *rows, const __global uint *right,
                            const int steps, const Span *next) {
  const long lines = next ? max(next[0].size, next[1].size) / 64 / max(steps, 1) + 1 : 0;
  const int fetched = min(lines, (long)MOST_FETCHED);
  long at = 0;
  for (int s = 0; s < steps; ++s, rows += 2, right += STEP_WORDS) {
    tiles_multiply_rows(tiles, rows[0].first, rows[0].pitch, rows[1].first, rows[1].pitch, right);
    for (int i = 0; i < fetched; ++i, at += 64) {
      if (at < next[0].size) PREFETCH_TO_L2(next[0].first + at);
      if (at < next[1].size) PREFETCH_TO_L2(next[1].first + at);
    }
  }
}

TASK __kernel void conv_unit(TENSOR(result), CTENSOR(source), CTENSOR(packed), CTENSOR(bias),
                             const int has_bias, const Pass pass, const int pitch,
                             const long source_size, TENSOR(counter), TENSOR(scratch),
                             const Blocks blocks) {
  const int steps = DIVIDE_UP(pass.channels, UNIT_K) * pass.taps;
  const int row_blocks = DIVIDE_UP(pass.rows, BLOCK), result_pitch = pass.groups * pass.rows;
  const long all_pieces = (long)(pass.n / blocks.line) * blocks.pieces;
  __global uint *copy = PTR(uint, scratch) + get_global_id(0) * blocks.task_words;
  __global uint *sums = copy + blocks.at_once * STEP_WORDS;
  Tiles tiles;
  tiles_take(&tiles);
  FOR_ITEMS(i, blocks.items) {
    const int part = i % blocks.parts, panel = i / blocks.parts % blocks.panels;
    const int group = i / blocks.parts / blocks.panels, first_row = panel * blocks.columns;
    const int columns = min(blocks.columns, pass.rows - first_row);
    const Source pixels = {CPTR(ushort, source) + group * pass.channels,
                           CPTR(ushort, source) + source_size, pitch};
    const __global uint *right =
        CPTR(uint, packed) + ((long)group * row_blocks + first_row / BLOCK) * steps * STEP_WORDS;
    const int row = group * pass.rows + first_row;
    const long p0 = (long)part * blocks.positions;
    const long last = min(all_pieces, p0 + blocks.positions);
    Piece pieces[2][2];
    find_pieces(pieces[0], &pass, &pixels, &blocks, p0, last);
    for (long p = p0; p < last; p += 2) {
      const Piece *now = pieces[(p - p0) / 2 % 2];
      Piece *next = pieces[(p - p0) / 2 % 2 ^ 1];
      find_pieces(next, &pass, &pixels, &blocks, p + 2, last);
      const Span spans[2] = {last_line(next, &pass, &pixels), last_line(next + 1, &pass, &pixels)};
      int first = 0, tap = 0, channel = 0;
      do {
        const int count = min(steps - first, blocks.at_once);
        const bool begins = first == 0, ends = first + count == steps;
        Rows rows[2 * AT_ONCE];
        for (int s = 0; s < count; ++s) {
          const Step step = step_of(&pass, &pixels, tap, channel);
          for (int h = 0; h < 2; ++h)
            rows[2 * s + h] =
                rows_of(copy + (2 * s + h) * TILE_WORDS, now + h, &pass, &pixels, &step);
          if (++tap < pass.taps) continue;
          tap = 0;
          channel += UNIT_K;
        }
        for (int j = 0; j < columns; j += BLOCK) {
          __global uint *block = sums + j * BLOCK;
          __global ushort *to = PTR(ushort, result) + row + j;
          for (int h = 0; ends && h < 2; ++h) prefetch_piece(to, result_pitch, &pass, now + h);
          if (begins) {
            tiles_zero(&tiles);
          } else {
            tiles_load(&tiles, block);
          }
          multiply(&tiles, rows, right + ((long)j / BLOCK * steps + first) * STEP_WORDS, count,
                   begins && j == 0 ? spans : 0);
          tiles_store(&tiles, block);
          if (!ends) continue;
          const __global ushort *of_rows = CPTR(ushort, bias) + row + j;
          const int biased = has_bias ? columns - j : 0;
          const float16 low_bias = bias_of(of_rows, biased);
          const float16 high_bias = bias_of(of_rows + 16, biased - 16);
          for (int h = 0; h < 2; ++h)
            finish_piece(to, result_pitch, &pass, now + h, block + h * 16 * BLOCK, low_bias,
                         high_bias, columns - j);
        }
        first += count;
      } while (first < steps);
    }
  }
  tiles_release();
}

TASK __kernel void pack_unit_grads(TENSOR(packed), CTENSOR(grads), const Pass pass,
                                   TENSOR(counter), TENSOR(scratch), const Blocks blocks) {
  const int steps = DIVIDE_UP(pass.n, UNIT_K), row_blocks = DIVIDE_UP(pass.rows, BLOCK);
  const int pitch = pass.groups * pass.rows;
  __global uint *spare = PTR(uint, scratch) + get_global_id(0) * blocks.task_words;
  FOR_ITEMS(i, blocks.items) {
    const int block = i % row_blocks, group = i / row_blocks % pass.groups;
    const int part = i / row_blocks / pass.groups, first_row = block * BLOCK;
    const int last = min(steps, (part + 1) * blocks.depth);
    __global uint *to =
        PTR(uint, packed) + ((long)group * row_blocks + block) * steps * STEP_WORDS;
    for (int s = part * blocks.depth; s < last; ++s)
      pack_left(to + (long)s * STEP_WORDS,
                CPTR(ushort, grads) + (long)s * UNIT_K * pitch + group * pass.rows + first_row,
                pitch, min(UNIT_K, pass.n - s * UNIT_K), min(BLOCK, pass.rows - first_row), false,
                spare);
  }
}

TASK __kernel void conv_unit_weight(TENSOR(sums), CTENSOR(source), CTENSOR(packed),
                                    const Pass pass, const int pitch, const long source_size,
                                    TENSOR(counter), TENSOR(scratch), const Blocks blocks) {
  const int steps = DIVIDE_UP(pass.n, UNIT_K), row_blocks = DIVIDE_UP(pass.rows, BLOCK);
  const int blocks_of_tap = DIVIDE_UP(pass.channels, BLOCK);
  const int all_blocks = blocks_of_tap * pass.taps;
  __global uint *panel = PTR(uint, scratch) + get_global_id(0) * blocks.task_words;
  __global uint *spare = panel + (long)blocks.columns * blocks.depth * STEP_WORDS;
  Tiles tiles;
  tiles_take(&tiles);
  FOR_ITEMS(i, blocks.items) {
    const int part = i % blocks.parts, number = i / blocks.parts % blocks.panels;
    const int group = i / blocks.parts / blocks.panels, first_block = number * blocks.columns;
    const int columns = min(blocks.columns, all_blocks - first_block);
    const Source pixels = {CPTR(ushort, source) + group * pass.channels,
                           CPTR(ushort, source) + source_size, pitch};
    const __global uint *grads =
        CPTR(uint, packed) + (long)group * row_blocks * steps * STEP_WORDS;
    __global uint *to = PTR(uint, sums) + (((long)part * pass.groups + group) * row_blocks *
                                               all_blocks + first_block) * BLOCK_WORDS;
    const int last = min(steps, (part + 1) * blocks.positions);
    const int start = part * blocks.positions;
    for (int first = start; first < last; first += blocks.depth) {
      const int depth = min(blocks.depth, last - first);
      for (int s = 0; s < depth; ++s) {
        Piece piece[2];
        for (int h = 0; h < 2; ++h) {
          const int q = (first + s) * UNIT_K + h * 16;
          find_runs(piece + h, &pass, &pixels, q, clamp(pass.n - q, 0, 16));
        }
        for (int j = 0; j < columns; ++j) {
          const Step step = step_of(&pass, &pixels, (first_block + j) / blocks_of_tap,
                                    (first_block + j) % blocks_of_tap * BLOCK);
          for (int h = 0; h < 2; ++h)
            copy_pixels(spare + h * TILE_WORDS, piece + h, &pass, &pixels, &step);
          pack_across(panel + ((long)j * depth + s) * STEP_WORDS,
                      (const __global ushort *)spare, BLOCK);
        }
      }
      for (int r = 0; r < row_blocks; ++r) {
        for (int j = 0; j < columns; ++j) {
          __global uint *block = to + ((long)r * all_blocks + j) * BLOCK_WORDS;
          if (first == start) {
            tiles_zero(&tiles);
          } else {
            tiles_load(&tiles, block);
          }
          const __global uint *right = panel + (long)j * depth * STEP_WORDS;
          const __global uchar *left =
              (const __global uchar *)(grads + ((long)r * steps + first) * STEP_WORDS);
          for (int s = 0; s < depth; ++s, right += STEP_WORDS, left += STEP_WORDS * 4)
            tiles_multiply(&tiles, left, 64, right);
          tiles_store(&tiles, block);
        }
      }
    }
  }
  tiles_release();
}

TASK __kernel void unpack_unit_weights(TENSOR(weight), CTENSOR(sums), const Pass pass,
                                       const int parts) {
  const int row = get_global_id(0) % pass.rows, group = get_global_id(0) / pass.rows;
  const int row_blocks = DIVIDE_UP(pass.rows, BLOCK);
  const int blocks_of_tap = DIVIDE_UP(pass.channels, BLOCK);
  const long part_words = (long)pass.groups * row_blocks * blocks_of_tap * pass.taps * BLOCK_WORDS;
  const __global uint *from =
      CPTR(uint, sums) + ((long)group * row_blocks + row / BLOCK) * blocks_of_tap * pass.taps *
                             BLOCK_WORDS + row % BLOCK * BLOCK;
  __global ushort *to = PTR(ushort, weight) + get_global_id(0) * pass.taps * pass.channels;
  for (int tap = 0; tap < pass.taps; ++tap)
    for (int c = 0; c < pass.channels; c += BLOCK, from += BLOCK_WORDS, to += BLOCK) {
      float16 low = 0, high = 0;
      for (int part = 0; part < parts; ++part) {
        low += as_float16(LOAD_LINE(from + part * part_words));
        high += as_float16(LOAD_LINE(from + part * part_words + 16));
      }
      store_elements(bfloat16_line(low, high), to, pass.channels - c);
      if (pass.channels - c < BLOCK) to += pass.channels - c - BLOCK;
    }
}
