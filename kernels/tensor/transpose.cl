// Copies of matrices from columns to rows: out[plane][row][column] = in[plane][column][row], where
// the innermost index is contiguous on both sides. DT: unsigned, of the elements' size.
// NARROW: 1 for elements of one or two bytes.
//
// A tile is copied twice, so that reads and writes of global memory are both contiguous:
//
//   in [column][row]        tile [column][row]      out [row][column]
//     a b c d   read rows     a b c d   read down     a e
//     e f g h  ----------->   e f g h  ----------->   b f
//                                                     c g
//                                                     d h
//
// The tile is in private memory on CPU devices, and in local memory on GPUs. On CPU devices narrow
// elements are exchanged in registers instead, 16 x 16 at a time: compilers move them one by one.
#include "common.clh"
#include "types.clh"

#define E CAT(MEM_, DT)

typedef struct {
  ulong planes, rows, columns;
  long out_plane, out_row, in_plane, in_column;  // strides, in elements
} Shape;

#define TILES(size, tile) (((size) + (tile)-1) / (tile))

#ifdef TASKS
// The rows of a tile are whole cache lines of the input. In a matrix of 4096 x 4096 floats each
// line is in another page, so tiles are high enough to read several lines of a page.
#define ROWS 64
#define COLUMNS 16
#define LEAST_ROWS (NARROW ? COLUMNS : ROWS)  // smaller tiles are copied by elements

#define V CAT(E, 16)
UNALIGNED(V)

#if NARROW
// Each round interleaves the first half of the vectors with the second half, which rotates the bits
// of an element's index. Four rounds exchange row and column.
ALWAYS_INLINE void transpose_block(__global E *to, const long to_step, __global const E *from,
                                   const long from_step) {
  V v[16], t[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) v[i] = LOAD_UNALIGNED(V, 16, from + i * from_step);
#pragma unroll
  for (int round = 0; round < 4; ++round) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      t[2 * i] = ((V)(v[i].lo, v[i + 8].lo)).s08192a3b4c5d6e7f;
      t[2 * i + 1] = ((V)(v[i].hi, v[i + 8].hi)).s08192a3b4c5d6e7f;
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) v[i] = t[i];
  }
#pragma unroll
  for (int i = 0; i < 16; ++i) STORE_UNALIGNED(V, 16, v[i], to + i * to_step);
}
#endif

TASK __kernel void transpose(TENSOR(out), CTENSOR(in), const Shape s, const ulong per_task) {
  const ulong across = TILES(s.columns, COLUMNS), down = TILES(s.rows, ROWS);
  const ulong first = get_global_id(0) * per_task;
  const ulong last = min(first + per_task, s.planes * down * across);
  for (ulong t = first; t < last; ++t) {
    const ulong strip = t / across, plane = strip / down;
    const ulong column = (t - strip * across) * COLUMNS, row = (strip - plane * down) * ROWS;
    __global const E *from =
        CPTR(E, in) + (long)plane * s.in_plane + (long)column * s.in_column + row;
    __global E *to = PTR(E, out) + (long)plane * s.out_plane + (long)row * s.out_row + column;
    const ulong rows = min((ulong)ROWS, s.rows - row);
    const ulong columns = min((ulong)COLUMNS, s.columns - column);
    if (rows < LEAST_ROWS || columns < COLUMNS) {
      for (ulong r = 0; r < rows; ++r) {
        for (ulong c = 0; c < columns; ++c) {
          to[(long)r * s.out_row + c] = from[(long)c * s.in_column + r];
        }
      }
      continue;
    }
#if NARROW
    for (ulong r = 0; r < rows; r += 16) {
      const ulong at = min(r, rows - 16);  // the last block may overlap the one before
      transpose_block(to + (long)at * s.out_row, s.out_row, from + at, s.in_column);
    }
#else
    E tile[COLUMNS * ROWS];
    for (int c = 0; c < COLUMNS; ++c) {
      for (int r = 0; r < ROWS; r += 16) {
        vstore16(vload16(0, from + c * s.in_column + r), 0, tile + c * ROWS + r);
      }
    }
    for (int r = 0; r < ROWS; ++r) {
      E line[COLUMNS];
      for (int c = 0; c < COLUMNS; ++c) line[c] = tile[c * ROWS + r];
      STORE_UNALIGNED(V, 16, vload16(0, line), to + r * s.out_row);
    }
#endif
  }
}
#else
// Tiles of SIDE by SIDE elements, work-groups of (SIDE, SIDE / 4). An additional column puts the
// rows of a column into different banks.

__kernel void transpose(TENSOR(out), CTENSOR(in), const Shape s) {
  __local E tile[SIDE][SIDE + 1];
  const ulong down = TILES(s.rows, SIDE);
  const ulong plane = group_id(1) / down;
  const ulong row = (group_id(1) - plane * down) * SIDE, column = group_id(0) * SIDE;
  const uint x = get_local_id(0), y = get_local_id(1);
  __global const E *from = CPTR(E, in) + (long)plane * s.in_plane;
  __global E *to = PTR(E, out) + (long)plane * s.out_plane;
  for (uint j = y; j < SIDE; j += SIDE / 4) {
    if (row + x < s.rows && column + j < s.columns)
      tile[j][x] = from[(long)(column + j) * s.in_column + (long)(row + x)];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint j = y; j < SIDE; j += SIDE / 4) {
    if (row + j < s.rows && column + x < s.columns)
      to[(long)(row + j) * s.out_row + (long)(column + x)] = tile[x][j];
  }
}
#endif
