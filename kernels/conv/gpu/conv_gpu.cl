// Convolution on GPUs as a matrix product (implicit GEMM): work-groups gather tiles of the right
// operand from the source, and no column buffer is stored.
//
//   conv_tiles         A pass as conv_pass.clh defines it: m counts rows, n positions, then images,
//                      k taps, then channels.
//   conv_weight_tiles  The weight gradient,
//                        weight[row][channel, tap] = sum over images and positions q of
//                          result[row][q] * source[channel][q * step + first + tap * spacing]
//                      m counts rows, n taps, then channels, k positions, then images.
//
// Defines (in addition to the defines of tile_gpu.clh)
//   PARTS             1: k is split into parts of part_depth, for gemm_sum. Part p of group g is
//                     p * groups + g in z. Its sums, in COMPUTE, follow the sums of part p - 1
//   WEIGHT_TILES      1: conv_weight_tiles, else conv_tiles
//   VOLUME            for conv_weight_tiles; 0: there is no depth
//   MASK              uint or ulong, with more bits than tap_count[0] + tap_count[1] + tap_count[2]
//   HAS_BIAS          0: bias is not read
//   HAS_RESIDUAL      0: the residual, laid out as the result, is not read
//   IN_ORDER          1: weight[row, channel, tap] is element channel * taps + tap of the row
//
// Work-group (ITEMS, 1, 1), global size (ITEMS * ceil(n / TN), ceil(m / TM), groups * parts). m, n
// and k must fit an int, and a tensor's bytes an unsigned one.
#include "tile_gpu.clh"
#include "conv_pass.clh"

// In a step, a work-item loads elements of each operand at one depth.
#define APART (ITEMS / TK)
#define A_TYPE COMPUTE
#define B_TYPE COMPUTE
#define A_LOADS (TM / APART)
#define B_LOADS (TN / APART)
#define PUT_A(tile, i) ((tile)[a_depth * A_PITCH + a_first + (i)*APART] = a_next[i])
#define PUT_B(tile, i) ((tile)[b_depth * B_PITCH + b_first + (i)*APART] = b_next[i])

// base[index] if `valid`, else 0. There is no branch, and the address is computed in 32 bits.
static inline COMPUTE fetch_at(__global const STORE *base, const bool valid, const int index) {
  const uint byte = (valid ? (uint)index : 0) * (uint)sizeof(STORE);
  const COMPUTE value = LOAD((__global const STORE *)((__global const char *)base + byte), 0);
  return valid ? value : 0;
}

#if PARTS
#define OUT COMPUTE
#define FINISH(p, i, value) ((p)[i] = (value))
#define GROUP (group_id(2) % pass.groups)
#define FIRST_DEPTH ((int)(group_id(2) / pass.groups) * pass.part_depth)
#define LAST_DEPTH min(pass.k, first_depth + pass.part_depth)
#define PART_OFFSET(size) ((long)(group_id(2) / pass.groups) * (size))
#else
#define OUT STORE
#define FINISH STORE_TO
#define GROUP group_id(2)
#define FIRST_DEPTH 0
#define LAST_DEPTH pass.k
#define PART_OFFSET(size) 0
#endif

// The position of the work-item in its tile, and of the tile in the product.
#define FIND_TILE                                                                         \
  const int item = get_local_id(0), x = item % SIDE_X, y = item / SIDE_X;                 \
  const int first_row = group_id(1) * TM, first_column = group_id(0) * TN;        \
  const int group = GROUP, first_depth = FIRST_DEPTH, last_depth = LAST_DEPTH;

// A position outside of any source, because rows have less than 2^30 elements. Sums of two such
// positions are outside, too. Sums of positions are unsigned.
#define FAR ((int)(1u << 31))
#define FAR_TAP (3 << 29)

#if !WEIGHT_TILES

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void conv_tiles(
    TENSOR(result), CTENSOR(source), CTENSOR(weight), CTENSOR(bias), CTENSOR(residual),
    const Pass pass) {
  FIND_TILE
  __global const STORE *restrict values = CPTR(STORE, source);
  __global const STORE *restrict weights =
      CPTR(STORE, weight) + group * pass.weight_group + pass.weight_first;
  // Adjacent work-items load adjacent taps of a filter, and adjacent positions.
  const int a_depth = item % TK, a_first = item / TK;
  const int b_depth = item / APART, b_first = item % APART;
  const int row_bit = pass.tap_count[2], plane_bit = row_bit + pass.tap_count[1];

  int row_start[A_LOADS];
#pragma unroll
  for (int i = 0; i < A_LOADS; ++i)
    row_start[i] = min(first_row + a_first + i * APART, pass.m - 1) * pass.weight_row;
  // For each column: the element that its first tap reads, and a mask of the taps that are inside
  // of the source.
  int start[B_LOADS], from_x[B_LOADS], from_y[B_LOADS], from_z[B_LOADS];
  MASK mask[B_LOADS];
#pragma unroll
  for (int i = 0; i < B_LOADS; ++i) {
    const int column = first_column + b_first + i * APART;
    const int image = DIVIDE(column, BY_POSITIONS);
    const int position = column - image * pass.positions;
    const int line = DIVIDE(position, BY_WIDTH);
    const int at_z = DIVIDE(line, BY_HEIGHT);
    from_x[i] = (position - line * pass.size[2]) * pass.step[2] + pass.first[2];
    from_y[i] = (line - at_z * pass.size[1]) * pass.step[1] + pass.first[1];
    from_z[i] = at_z * pass.step[0] + pass.first[0];
    start[i] = (image * pass.groups + group) * pass.channels * pass.source_plane +
               (from_z[i] * pass.source[1] + from_y[i]) * pass.source[2] + from_x[i];
    mask[i] = 0;
    if (column >= pass.n) from_x[i] = FAR;
  }
// Sets a bit for each tap that is inside of the source along this dimension.
#define MARK(from, d, first_bit)                                                      \
  for (int tap = 0; tap < pass.tap_count[d]; ++tap) {                                 \
    for (int i = 0; i < B_LOADS; ++i) {                                      \
      const bool inside = (uint)from[i] + (uint)(tap * pass.spacing[d]) < (uint)pass.source[d]; \
      mask[i] |= (MASK)inside << (first_bit + tap);                                   \
    }                                                                                 \
  }
  MARK(from_x, 2, 0)
  MARK(from_y, 1, row_bit)
  MARK(from_z, 0, plane_bit)

// `wanted`: the bits of the tap; a column reads the tap only if its mask has all of them. Beyond
// the last depth, `wanted` has all bits set, which no mask has.
#define SPLIT(name, depth)                                           \
  const int name##_channel = DIVIDE(depth, BY_TAPS);                    \
  const int name##_tap = depth - name##_channel * pass.taps;         \
  const int name##_line = DIVIDE(name##_tap, BY_TAP_WIDTH);             \
  const int name##_z = DIVIDE(name##_line, BY_TAP_HEIGHT);              \
  const int name##_x = name##_tap - name##_line * pass.tap_count[2]; \
  const int name##_y = name##_line - name##_z * pass.tap_count[1];
#if IN_ORDER
#define SPLIT_A const int a_offset = a_k;
#else
#define SPLIT_A                                                                        \
  SPLIT(a, a_k)                                                                        \
  const int a_offset = a_channel * pass.weight_channel + a_z * pass.weight_step[0] +   \
                       a_y * pass.weight_step[1] + a_x * pass.weight_step[2];
#endif
#define FETCH_BEGIN                                                                            \
  const int a_k = next + a_depth;                                                              \
  const int b_k = next + b_depth;                                                              \
  SPLIT_A                                                                                      \
  SPLIT(b, b_k)                                                                                \
  const int b_offset = b_channel * pass.source_plane +                                         \
                       (b_z * pass.spacing[0] * pass.source[1] + b_y * pass.spacing[1]) *      \
                           pass.source[2] + b_x * pass.spacing[2];                             \
  const MASK wanted = b_k < last_depth ? (MASK)1 << b_x | (MASK)1 << (row_bit + b_y) |         \
                                             (MASK)1 << (plane_bit + b_z)                      \
                                       : ~(MASK)0;
#define FETCH_A(i) fetch_at(weights, a_k < last_depth, row_start[i] + a_offset)
#define FETCH_B(i) fetch_at(values, (mask[i] & wanted) == wanted, start[i] + b_offset)

#include "tile_loop.clh"

  __global OUT *to = PTR(OUT, result) +
                     PART_OFFSET((long)pass.images * pass.groups * pass.rows * pass.result_plane);
#pragma unroll
  for (int j = 0; j < WN; ++j) {
    const int column = first_column + TILE_COLUMN(j);
    if (column < pass.n) {
      const int image = DIVIDE(column, BY_POSITIONS);
      const int position = column - image * pass.positions;
      const int line = DIVIDE(position, BY_WIDTH);
      const int at_z = DIVIDE(line, BY_HEIGHT);
      const int at_y = line - at_z * pass.size[1];
      const int at_x = position - line * pass.size[2];
      const int offset = (image * pass.groups + group) * pass.rows * pass.result_plane +
                         pass.result_first + at_z * pass.result_step[0] +
                         at_y * pass.result_step[1] + at_x * pass.result_step[2];
#pragma unroll
      for (int i = 0; i < WM; ++i) {
        const int row = first_row + TILE_ROW(i);
        if (row < pass.m) {
          COMPUTE value = sum[i][j];
#if HAS_BIAS
          value += LOAD(CPTR(STORE, bias), group * pass.rows + row);
#endif
#if HAS_RESIDUAL
          value += LOAD(CPTR(STORE, residual), offset + row * pass.result_plane);
#endif
          FINISH(to, offset + row * pass.result_plane, ACTIVATE((QUAD)(value)).x);
        }
      }
    }
  }
}

#else

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void conv_weight_tiles(
    TENSOR(weight), CTENSOR(source), CTENSOR(result), const Pass pass) {
  FIND_TILE
  __global const STORE *restrict values = CPTR(STORE, source);
  __global const STORE *restrict grads = CPTR(STORE, result);
  // Adjacent work-items load adjacent positions.
  const int a_depth = item % TK, a_first = item / TK;
  const int b_depth = a_depth, b_first = a_first;

  int row_start[A_LOADS];
#pragma unroll
  for (int i = 0; i < A_LOADS; ++i)
    row_start[i] = min(first_row + a_first + i * APART, pass.m - 1) * pass.result_plane;
  // For each column: the offset of its tap and channel from the first tap of the first channel.
  int start[B_LOADS], tap_x[B_LOADS], tap_y[B_LOADS];
#if VOLUME
  int tap_z[B_LOADS];
#endif
#pragma unroll
  for (int i = 0; i < B_LOADS; ++i) {
    const int column = first_column + b_first + i * APART;
    const int channel = DIVIDE(column, BY_TAPS);
    const int tap = column - channel * pass.taps;
    const int line = DIVIDE(tap, BY_TAP_WIDTH);
    const int plane = DIVIDE(line, BY_TAP_HEIGHT);
    const int to_x = (tap - line * pass.tap_count[2]) * pass.spacing[2];
    const int to_z = plane * pass.spacing[0];
    tap_x[i] = column < pass.n ? to_x : FAR_TAP;
    tap_y[i] = (line - plane * pass.tap_count[1]) * pass.spacing[1];
#if VOLUME
    tap_z[i] = to_z;
#endif
    start[i] = channel * pass.source_plane + (to_z * pass.source[1] + tap_y[i]) * pass.source[2] +
               to_x;
  }

#if VOLUME
#define INSIDE_PLANE(i) & ((uint)(from_z + tap_z[i]) < (uint)pass.source[0])
#else
#define INSIDE_PLANE(i)
#endif
#define FETCH_BEGIN                                                                            \
  const int depth = next + a_depth;                                                            \
  const int image = DIVIDE(depth, BY_POSITIONS);                                                  \
  const int position = depth - image * pass.positions;                                         \
  const int line = DIVIDE(position, BY_WIDTH);                                                   \
  const int at_z = DIVIDE(line, BY_HEIGHT);                                                       \
  const int from_z = at_z * pass.step[0] + pass.first[0];                                      \
  const int from_y = (line - at_z * pass.size[1]) * pass.step[1] + pass.first[1];              \
  const int from_x = depth < last_depth                                                        \
                         ? (position - line * pass.size[2]) * pass.step[2] + pass.first[2]     \
                         : FAR;                                                                \
  const int block = image * pass.groups + group;                                               \
  const int a_offset = block * pass.rows * pass.result_plane + position;                       \
  const int b_offset = block * pass.channels * pass.source_plane +                             \
                       (from_z * pass.source[1] + from_y) * pass.source[2] + from_x;
#define FETCH_A(i) fetch_at(grads, depth < last_depth, row_start[i] + a_offset)
#define FETCH_B(i)                                                                             \
  fetch_at(values,                                                                             \
           ((uint)from_x + (uint)tap_x[i] < (uint)pass.source[2]) &                            \
               ((uint)(from_y + tap_y[i]) < (uint)pass.source[1]) INSIDE_PLANE(i),             \
           start[i] + b_offset)

#include "tile_loop.clh"

  __global OUT *to = PTR(OUT, weight) + PART_OFFSET((long)pass.groups * pass.m * pass.n) +
                     (long)group * pass.m * pass.n;
#pragma unroll
  for (int i = 0; i < WM; ++i) {
    const int row = first_row + TILE_ROW(i);
#pragma unroll
    for (int j = 0; j < WN; ++j) {
      const int column = first_column + TILE_COLUMN(j);
      if (row < pass.m && column < pass.n) FINISH(to, row * pass.n + column, sum[i][j]);
    }
  }
}
#endif
