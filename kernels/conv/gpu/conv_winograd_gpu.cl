// Convolutions 3x3 of stride 1 on GPUs by Winograd's algorithm (winograd.clh): launches that
// transform, before and after a batch of 16 matrix products (gemm()). A plane is one of the 16.
//
//   result, data gradient   winograd_filters   u[16][rows][channels]
//                           winograd_inputs    v[16][channels][pitch]
//                           products           m = u v, [16][rows][pitch]
//                           winograd_results
//   weight gradient         winograd_inputs    v
//                           winograd_grads     g[16][rows][pitch]
//                           products           m = g v^T, [16][rows][channels]
//                           winograd_weights
//
// The columns of v and g are tiles first .. first + count - 1, then zeros up to `pitch`.
//
// Defines: as for element.clh and epilogue.clh, and HAS_BIAS. u, v, g and m are of type COMPUTE.
// Global size (at least pitch or channels, then channels or rows).
#include "element.clh"
#define V COMPUTE
#include "epilogue.clh"
#include "winograd.clh"

#define FOR(i, n) _Pragma("unroll") for (int i = 0; i < n; ++i)
#define HALF ((COMPUTE)0.5f)

typedef struct {
  int image, y, x;  // position of the first result
} Tile;

static inline Tile tile_at(const int number, const Geometry *g) {
  const int across = (g->width + 1) / 2, down = (g->height + 1) / 2;
  const int line = number / across, image = line / down;
  return (Tile){image, 2 * (line - image * down), 2 * (number - line * across)};
}

// Loads elements top .. top + size - 1 by left .. left + size - 1 of a plane; zeros outside of it.
#define LOAD_SQUARE(square, size, plane, top, left, height, width)                             \
  FOR(i, size) FOR(j, size) {                                                                  \
    const int y = (top) + i, x = (left) + j;                                                   \
    const bool inside = (uint)y < (uint)(height) && (uint)x < (uint)(width);                   \
    square[i][j] = inside ? LOAD(plane, y * (width) + x) : (COMPUTE)0;                         \
  }

// Number `at` of each plane; a plane has `size` numbers.
static inline void store_planes(__global COMPUTE *to, const COMPUTE square[4][4], const long size,
                                const long at) {
  FOR(i, 4) FOR(j, 4) to[(4 * i + j) * size + at] = square[i][j];
}

static inline void load_planes(COMPUTE square[4][4], __global const COMPUTE *from,
                               const long size, const long at) {
  FOR(i, 4) FOR(j, 4) square[i][j] = from[(4 * i + j) * size + at];
}

__kernel void winograd_filters(TENSOR(u), CTENSOR(weight), const Filters f) {
  const int channel = get_global_id(0), row = get_global_id(1);
  if (channel >= f.channels) return;
  __global const STORE *taps =
      CPTR(STORE, weight) + row * f.row_stride + channel * f.channel_stride;
  COMPUTE column[4][3], square[4][4];
  FOR(j, 3) {
    COMPUTE tap[3];
    FOR(i, 3) tap[i] = LOAD(taps, f.flipped ? 8 - (3 * i + j) : 3 * i + j);
    const COMPUTE outer = HALF * (tap[0] + tap[2]), inner = HALF * tap[1];
    column[0][j] = tap[0];
    column[1][j] = outer + inner;
    column[2][j] = outer - inner;
    column[3][j] = tap[2];
  }
  FOR(i, 4) {
    const COMPUTE outer = HALF * (column[i][0] + column[i][2]), inner = HALF * column[i][1];
    square[i][0] = column[i][0];
    square[i][1] = outer + inner;
    square[i][2] = outer - inner;
    square[i][3] = column[i][2];
  }
  store_planes(PTR(COMPUTE, u), square, (long)f.rows * f.channels,
               (long)row * f.channels + channel);
}

__kernel void winograd_inputs(TENSOR(v), CTENSOR(source), const Geometry g, const int first,
                              const int count, const int pitch) {
  const int at = get_global_id(0), channel = get_global_id(1);
  if (at >= pitch) return;
  COMPUTE square[4][4];
  FOR(i, 4) FOR(j, 4) square[i][j] = 0;
  if (at < count) {
    const Tile tile = tile_at(first + at, &g);
    __global const STORE *plane =
        CPTR(STORE, source) +
        ((long)tile.image * g.channels + channel) * g.in_height * g.in_width;
    LOAD_SQUARE(square, 4, plane, tile.y - g.pad_y, tile.x - g.pad_x, g.in_height, g.in_width)
  }
  COMPUTE column[4][4];
  FOR(j, 4) {
    column[0][j] = square[0][j] - square[2][j];
    column[1][j] = square[1][j] + square[2][j];
    column[2][j] = square[2][j] - square[1][j];
    column[3][j] = square[1][j] - square[3][j];
  }
  FOR(i, 4) {
    square[i][0] = column[i][0] - column[i][2];
    square[i][1] = column[i][1] + column[i][2];
    square[i][2] = column[i][2] - column[i][1];
    square[i][3] = column[i][1] - column[i][3];
  }
  store_planes(PTR(COMPUTE, v), square, (long)g.channels * pitch, (long)channel * pitch + at);
}

__kernel void winograd_results(TENSOR(result), CTENSOR(m), CTENSOR(bias), CTENSOR(residual),
                               const Geometry g, const int first, const int count,
                               const int pitch) {
  const int at = get_global_id(0), row = get_global_id(1);
  if (at >= count) return;
  COMPUTE square[4][4], line[2][4];
  load_planes(square, CPTR(COMPUTE, m), (long)g.rows * pitch, (long)row * pitch + at);
  FOR(j, 4) {
    line[0][j] = square[0][j] + square[1][j] + square[2][j];
    line[1][j] = square[1][j] - square[2][j] - square[3][j];
  }
  const Tile tile = tile_at(first + at, &g);
  const long plane = ((long)tile.image * g.rows + row) * g.height * g.width;
  FOR(i, 2) {
    const COMPUTE sums[2] = {line[i][0] + line[i][1] + line[i][2],
                             line[i][1] - line[i][2] - line[i][3]};
    FOR(j, 2) {
      const int y = tile.y + i, x = tile.x + j;
      if (y >= g.height || x >= g.width) continue;
      const int pixel = y * g.width + x;
      COMPUTE value = sums[j];
#if HAS_BIAS
      value += LOAD(CPTR(STORE, bias), row);
#endif
#if HAS_RESIDUAL
      value += LOAD(CPTR(STORE, residual) + plane, pixel);
#endif
      STORE_TO(PTR(STORE, result) + plane, pixel, ACTIVATE(value));
    }
  }
}

__kernel void winograd_grads(TENSOR(to), CTENSOR(grad), const Geometry g, const int first,
                             const int count, const int pitch) {
  const int at = get_global_id(0), row = get_global_id(1);
  if (at >= pitch) return;
  COMPUTE pixels[2][2], column[4][2], square[4][4];
  FOR(i, 2) FOR(j, 2) pixels[i][j] = 0;
  if (at < count) {
    const Tile tile = tile_at(first + at, &g);
    __global const STORE *plane =
        CPTR(STORE, grad) + ((long)tile.image * g.rows + row) * g.height * g.width;
    LOAD_SQUARE(pixels, 2, plane, tile.y, tile.x, g.height, g.width)
  }
  FOR(j, 2) {
    column[0][j] = pixels[0][j];
    column[1][j] = pixels[0][j] + pixels[1][j];
    column[2][j] = pixels[0][j] - pixels[1][j];
    column[3][j] = -pixels[1][j];
  }
  FOR(i, 4) {
    square[i][0] = column[i][0];
    square[i][1] = column[i][0] + column[i][1];
    square[i][2] = column[i][0] - column[i][1];
    square[i][3] = -column[i][1];
  }
  store_planes(PTR(COMPUTE, to), square, (long)g.rows * pitch, (long)row * pitch + at);
}

__kernel void winograd_weights(TENSOR(weight), CTENSOR(m), const Geometry g) {
  const int channel = get_global_id(0), row = get_global_id(1);
  if (channel >= g.channels) return;
  const long filter = (long)row * g.channels + channel;
  COMPUTE square[4][4], line[3][4];
  load_planes(square, CPTR(COMPUTE, m), (long)g.rows * g.channels, filter);
  FOR(j, 4) {
    const COMPUTE sum = HALF * (square[1][j] + square[2][j]);
    line[0][j] = square[0][j] + sum;
    line[1][j] = HALF * (square[1][j] - square[2][j]);
    line[2][j] = sum + square[3][j];
  }
  __global STORE *taps = PTR(STORE, weight) + 9 * filter;
  FOR(i, 3) {
    const COMPUTE sum = HALF * (line[i][1] + line[i][2]);
    STORE_TO(taps, 3 * i, line[i][0] + sum);
    STORE_TO(taps, 3 * i + 1, HALF * (line[i][1] - line[i][2]));
    STORE_TO(taps, 3 * i + 2, sum + line[i][3]);
  }
}
