// Convolutions of channels_last bfloat16 by the matrix unit of a CPU (matrix_unit_amx.clh): a pass
// as conv_pass.clh defines it, and the weight gradient.
//
// Rows of tiles are pixels. For each tap, the pixels of 32 positions are copied to a step of the
// left operand, with zeros outside of the source. So strides, dilations, borders and the ends of
// lines cost a copy, which all blocks of 32 columns of the result share. A step has up to UNIT_K
// channels of one tap.
//
// Defines, besides those of matrix_unit_amx.clh, and of element.clh for bfloat16
//   AT_ONCE  steps whose copies stay in the first level cache
//
// Kernels. Tasks take one item after another. Operands of several tiles are in the order of steps.
//   pack_unit_weights   grid (tasks). [group][32 rows][tap][step]: right operands
//   conv_unit           grid (tasks). An item is a part of the positions and a panel of a group,
//                       `columns` rows of the pass, which are columns of the tiles
//   pack_unit_grads     grid (tasks). [group][32 rows][32 positions]: left operands, the gradients
//                       of the output
//   conv_unit_weight    grid (tasks). An item is a part of the positions and a panel, `columns`
//                       blocks of 32 channels of a tap. Sums: [part][group][32 rows][block]
//   unpack_unit_weights grid (rows of all groups): adds the parts
#define VW 16
#define SPLITS 0
#include "conv_pass.clh"
#include "element.clh"
#include "matrix_unit_amx.clh"
#include "matrix_unit_amx_pack.clh"
#include "task_items.clh"

#define IS_PIXEL(d, at) ((uint)(at) < (uint)pass->source[d])

typedef struct {
  long task_words;  // of the scratch memory
  int columns, positions, depth;
  int panels, parts, items;
} Blocks;

typedef struct {
  const __global ushort *images, *end;  // the group's channels; where the memory ends
  long pitch;                           // of a pixel, in elements
} Source;

// Adjacent positions in a line of the result.
typedef struct {
  const __global ushort *pixel;  // that the first tap reads at the first position
  int at[3];                     // its place in the source
  int count;
  long to;  // the first position's pixel in the result
} Run;

// Splits `count` positions from q on into runs. Returns their number.
ALWAYS_INLINE int find_runs(Run *runs, const Pass *pass, const Source *source, const int q,
                            const int count) {
  int line = q / pass->size[2], x = q % pass->size[2], runs_found = 0;
  for (int done = 0; done < count; ++line, x = 0) {
    Run *run = runs + runs_found++;
    const int slice = line / pass->size[1], y = line % pass->size[1];
    const int image = slice / pass->size[0], z = slice % pass->size[0];
    run->at[0] = z * pass->step[0] + pass->first[0];
    run->at[1] = y * pass->step[1] + pass->first[1];
    run->at[2] = x * pass->step[2] + pass->first[2];
    run->count = min(count - done, pass->size[2] - x);
    run->pixel =
        source->images +
        ((long)image * pass->source_plane +
         ((long)run->at[0] * pass->source[1] + run->at[1]) * pass->source[2] + run->at[2]) *
            source->pitch;
    run->to = (long)image * pass->result_plane + pass->result_first +
              (long)z * pass->result_step[0] + (long)y * pass->result_step[1] +
              (long)x * pass->result_step[2];
    done += run->count;
  }
  return runs_found;
}

// Up to UNIT_K channels of a pixel, and zeros.
ALWAYS_INLINE uint16 load_channels(const __global ushort *from, const int count,
                                   const uint16 mask, const __global ushort *end) {
  if (from + UNIT_K <= end) return LOAD_LINE(from) & mask;
  uint words[16] = {0};
  for (int c = 0; c < count; ++c) words[c / 2] |= (uint)from[c] << c % 2 * 16;
  return vload16(0, words);
}

// The first `count` elements of a line.
ALWAYS_INLINE void store_elements(const uint16 line, __global ushort *to, const int count) {
  if (count >= BLOCK) {
    STORE_LINE(line, to);
    return;
  }
  uint words[16];
  vstore16(line, 0, words);
  for (int i = 0; i < count; ++i) to[i] = words[i / 2] >> i % 2 * 16;
}

// The step of a tap and its channels from `channel` on: 32 lines.
static void copy_pixels(__global uint *to, const Run *runs, const int count, const Pass *pass,
                        const Source *source, const int tap, const int channel) {
  const int row = tap / pass->tap_count[2], x = tap % pass->tap_count[2] * pass->spacing[2];
  const int y = row % pass->tap_count[1] * pass->spacing[1];
  const int z = row / pass->tap_count[1] * pass->spacing[0];
  const long pitch = source->pitch, step = pass->step[2] * pitch;
  const long away = (((long)z * pass->source[1] + y) * pass->source[2] + x) * pitch + channel;
  const int channels = min(UNIT_K, pass->channels - channel);
  const int16 lane = 2 * LANE_NUMBERS(int, 16);
  const uint16 mask = (as_uint16(lane < channels) & 0xFFFFu) |
                      (as_uint16(lane + 1 < channels) & 0xFFFF0000u);
  const __global uint *last_line = to + STEP_WORDS;
  for (int r = 0; r < count; ++r) {
    const Run *run = runs + r;
    const bool in_lines = IS_PIXEL(0, run->at[0] + z) && IS_PIXEL(1, run->at[1] + y);
    int first = 0, last = in_lines ? run->count : 0;
    const int left = run->at[2] + x;
    while (first < last && left + first * pass->step[2] < 0) ++first;
    while (first < last && left + (last - 1) * pass->step[2] >= pass->source[2]) --last;
    const __global ushort *from = run->pixel + away + first * step;
    int i = 0;
    for (; i < first; ++i, to += 16) STORE_LINE((uint16)(0), to);
    if (channels == UNIT_K) {
      for (; i < last; ++i, from += step, to += 16) STORE_LINE(LOAD_LINE(from), to);
    } else {
      for (; i < last; ++i, from += step, to += 16)
        STORE_LINE(load_channels(from, channels, mask, source->end), to);
    }
    for (; i < run->count; ++i, to += 16) STORE_LINE((uint16)(0), to);
  }
  for (; to < last_line; to += 16) STORE_LINE((uint16)(0), to);
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
    __global uint *to = PTR(uint, packed) + (long)i * steps * STEP_WORDS;
    for (int s = 0; s < steps; ++s, to += STEP_WORDS)
      pack_right(to, from + (long)s * UNIT_K * pass.weight_channel,
                 along ? pass.weight_row : pass.weight_channel,
                 min(UNIT_K, pass.channels - s * UNIT_K), min(BLOCK, pass.rows - first_row), along,
                 spare);
  }
}

// Adds the bias to the sums of a block, and stores them. `columns`: of the block, at most 32.
ALWAYS_INLINE void finish_block(__global ushort *result, const long pitch, const Pass *pass,
                                const Run *runs, const int run_count, const __global uint *block,
                                const float16 low_bias, const float16 high_bias,
                                const int columns) {
  for (int r = 0; r < run_count; ++r) {
    __global ushort *out = result + runs[r].to * pitch;
    for (int i = 0; i < runs[r].count; ++i, block += BLOCK, out += pass->result_step[2] * pitch) {
      const uint16 line = bfloat16_line(as_float16(LOAD_LINE(block)) + low_bias,
                                        as_float16(LOAD_LINE(block + 16)) + high_bias);
      store_elements(line, out, columns);
    }
  }
}

ALWAYS_INLINE float16 bias_of(const __global ushort *bias, const int count) {
  float lane[16] = {0};
  for (int l = 0; l < min(count, 16); ++l) lane[l] = LOAD(bias, l);
  return vload16(0, lane);
}

TASK __kernel void conv_unit(TENSOR(result), CTENSOR(source), CTENSOR(packed), CTENSOR(bias),
                             const int has_bias, const Pass pass, const int pitch,
                             const long source_size, TENSOR(counter), TENSOR(scratch),
                             const Blocks blocks) {
  const int steps_of_tap = DIVIDE_UP(pass.channels, UNIT_K), steps = steps_of_tap * pass.taps;
  const int row_blocks = DIVIDE_UP(pass.rows, BLOCK), result_pitch = pass.groups * pass.rows;
  __global uint *copy = PTR(uint, scratch) + get_global_id(0) * blocks.task_words;
  __global uint *sums = copy + AT_ONCE * STEP_WORDS;
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
    const int last = min((long)pass.n, (part + 1L) * blocks.positions);
    for (long q = (long)part * blocks.positions; q < last; q += BLOCK) {
      Run runs[BLOCK];
      const int run_count = find_runs(runs, &pass, &pixels, q, min((long)BLOCK, last - q));
      int first = 0;
      do {
        const int end = min(steps, first + AT_ONCE);
        for (int s = first; s < end; ++s)
          copy_pixels(copy + (s - first) * STEP_WORDS, runs, run_count, &pass, &pixels,
                      s / steps_of_tap, s % steps_of_tap * UNIT_K);
        for (int j = 0; j < columns; j += BLOCK) {
          __global uint *block = sums + j * BLOCK;
          if (first == 0) {
            tiles_zero(&tiles);
          } else {
            tiles_load(&tiles, block);
          }
          const __global uint *factor = right + ((long)j / BLOCK * steps + first) * STEP_WORDS;
          const __global uchar *left = (const __global uchar *)copy;
          for (int s = first; s < end; ++s, factor += STEP_WORDS, left += STEP_WORDS * 4)
            tiles_multiply(&tiles, left, 64, factor);
          tiles_store(&tiles, block);
          if (end < steps) continue;
          const __global ushort *of_rows = CPTR(ushort, bias) + row + j;
          const int count = has_bias ? columns - j : 0;
          finish_block(PTR(ushort, result) + row + j, result_pitch, &pass, runs, run_count, block,
                       bias_of(of_rows, count), bias_of(of_rows + 16, count - 16), columns - j);
        }
        first = end;
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
        Run runs[BLOCK];
        const int q = (first + s) * UNIT_K;
        const int run_count = find_runs(runs, &pass, &pixels, q, min(UNIT_K, pass.n - q));
        for (int j = 0; j < columns; ++j) {
          const int tap = (first_block + j) / blocks_of_tap;
          copy_pixels(spare, runs, run_count, &pass, &pixels, tap,
                      (first_block + j) % blocks_of_tap * BLOCK);
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
