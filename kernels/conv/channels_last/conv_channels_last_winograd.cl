// Float convolution 3x3 of stride 1 on CPU devices where the channels of a pixel are adjacent
// (channels_last), by Winograd's F(2x2, 3x3) (winograd.clh): a pass as conv_pass.clh defines it, of
// one group and two dimensions. Every vector holds channels of one pixel.
//
// A block is up to TILES consecutive tiles. A panel is NR = NV * VW rows. A register tile of the
// products is MR tiles by NV vectors of rows. Both are padded: the last tile is computed again,
// and filters after the last row are zeros.
//
//     u[panel][16][channels][NR]               transformed filters
//     v[block][16 * V_PLANE]                   transformed pixels: [channels / CHUNK][TILES][CHUNK]
//     m[16 * M_PLANE]                          products of a block and a panel: [TILES][NR]
//
// The products run in one of two orders. By blocks of tiles, for large images: a task transforms
// the pixels of a block, which stay in the second level cache, for all panels. By panels of rows,
// for many channels of small images: a task transforms the filters of a panel, which are larger
// than the images, for all blocks.
//
//   by blocks  winograd_last_filters  grid (panels, shares of the channels): u
//              winograd_last_blocks   grid (tasks). scratch: of each task v of a block, and m
//   by panels  winograd_last_pixels   grid (blocks, shares of the channels): v
//              winograd_last_panels   grid (tasks). scratch: of each task u of a panel, and m
//
// Weights have the pass's strides. Pixels outside of the source are read from `zeros`.
//
// Defines: VW, lanes of a vector, which divide the channels; MR, NV; TILES, a multiple of MR;
// CHUNK, channels whose distances from one tile to the next are constants, a multiple of VW.
#include "conv_vector.clh"
#include "conv_pass.clh"
#include "winograd_cpu.clh"

#define NR (VW * NV)
// VW floats more than a plane needs: planes whose distances are powers of two would share the same
// sets of the first level cache.
#define V_PLANE ((size_t)DIVIDE_UP(pass.channels, CHUNK) * TILES * CHUNK + VW)
#define M_PLANE (TILES * NR + VW)
#define U_SIZE ((size_t)16 * pass.channels * NR)

#define ACROSS DIVIDE_UP(pass.size[2], 2)
#define DOWN DIVIDE_UP(pass.size[1], 2)

typedef struct {
  int image, y, x;
} Tile;

static inline Tile tile_at(const Pass pass, const int number) {
  const int line = number / ACROSS, image = line / DOWN;
  return (Tile){image, line - image * DOWN, number - line * ACROSS};
}

INTERLEAVE(transpose, VW)

// Loads the taps of `filters` filters, one in each lane, in VW channels. Lanes after the last one
// are zeros.
static inline void load_filters(VEC (*taps)[VW], __global const float *restrict weight,
                                const Pass pass, const int filters) {
  const int row = pass.weight_row, channel = pass.weight_channel;
  const bool adjacent_taps = channel == 9 && pass.weight_step[2] == 1;
  for (int t = 0; t < 9; ++t) {
    __global const float *restrict tap =
        weight + t / 3 * pass.weight_step[1] + t % 3 * pass.weight_step[2];
    if (filters >= VW && row == 1) {
#pragma unroll
      for (int i = 0; i < VW; ++i) taps[t][i] = LOAD_FLOATS(tap + (long)i * channel);
    } else if (filters >= VW && (channel == 1 || adjacent_taps)) {
      // Column i of a square is channel i of a tap, or number t * VW + i of a filter's numbers.
      __global const float *restrict from = adjacent_taps ? weight + t * VW : tap;
      VEC square[VW];
#pragma unroll
      for (int l = 0; l < VW; ++l) square[l] = LOAD_FLOATS(from + (long)l * row);
      transpose(square);
      for (int i = 0; i < VW; ++i) {
        const int number = t * VW + i;
        if (adjacent_taps) taps[number % 9][number / 9] = square[i];
        else taps[t][i] = square[i];
      }
    } else {
      for (int i = 0; i < VW; ++i) {
        float lane[VW];
        for (int l = 0; l < VW; ++l)
          lane[l] = l < filters ? tap[(long)l * row + (long)i * channel] : 0.0f;
        taps[t][i] = LOAD_FLOATS(lane);
      }
    }
  }
}

// Transforms the filters of the panel that begins with filter `row`, in channels first .. last - 1.
static inline void transform_filters(__global float *restrict u,
                                     __global const float *restrict weight, const Pass pass,
                                     const int row, const int first, const int last) {
  const size_t plane = (size_t)pass.channels * NR;
  const bool flipped = pass.spacing[2] < 0;  // the last tap reads the first pixel
  for (int c = first; c < last; c += VW) {
    for (int j = 0; j < NV; ++j) {
      const int panel_row = row + j * VW;
      VEC taps[9][VW];
      load_filters(taps, weight + pass.weight_first + (long)panel_row * pass.weight_row +
                             (long)c * pass.weight_channel,
                   pass, pass.rows - panel_row);
      for (int i = 0; i < VW; ++i) {
        __global float *restrict to = u + (size_t)(c + i) * NR + j * VW;
        VEC column[3][4];
#pragma unroll
        for (int x = 0; x < 3; ++x) {
          const int t = flipped ? 8 - x : x, down = flipped ? -3 : 3;
          expand(column[x], taps[t][i], taps[t + down][i], taps[t + 2 * down][i]);
        }
#pragma unroll
        for (int y = 0; y < 4; ++y) {
          VEC result[4];
          expand(result, column[0][y], column[1][y], column[2][y]);
#pragma unroll
          for (int x = 0; x < 4; ++x) STORE_FLOATS(result[x], to + (4 * y + x) * plane);
        }
      }
    }
  }
}

// Bt * (a, b, c, d)
static inline void spread(VEC *to, const VEC a, const VEC b, const VEC c, const VEC d) {
  to[0] = a - c;
  to[1] = b + c;
  to[2] = c - b;
  to[3] = b - d;
}

// Transforms the pixels of `count` tiles from number `first` on, in channels begin .. end - 1.
static inline void transform_pixels(__global float *restrict v,
                                    __global const float *restrict source,
                                    __global const float *restrict zeros, const Pass pass,
                                    const int first, const int count, const int begin,
                                    const int end) {
  const int top = pass.first[1] + min(0, 2 * pass.spacing[1]);
  const int left = pass.first[2] + min(0, 2 * pass.spacing[2]);
  for (int t = 0; t < DIVIDE_UP(count, MR) * MR; ++t) {
    const Tile tile = tile_at(pass, first + min(t, count - 1));
    __global const float *from[4][4];
    for (int y = 0; y < 4; ++y) {
      const int line = 2 * tile.y + top + y;
      for (int x = 0; x < 4; ++x) {
        const int column = 2 * tile.x + left + x;
        const bool inside =
            (uint)line < (uint)pass.source[1] && (uint)column < (uint)pass.source[2];
        const long pixel =
            (long)tile.image * pass.source_plane + (long)line * pass.source[2] + column;
        from[y][x] = inside ? source + pixel * pass.channels : zeros;
      }
    }
    for (int c = begin; c < end; c += VW) {
      VEC column[4][4];
#pragma unroll
      for (int x = 0; x < 4; ++x)
        spread(column[x], LOAD_FLOATS(from[0][x] + c), LOAD_FLOATS(from[1][x] + c),
               LOAD_FLOATS(from[2][x] + c), LOAD_FLOATS(from[3][x] + c));
      __global float *to = v + ((size_t)(c / CHUNK) * TILES + t) * CHUNK + c % CHUNK;
#pragma unroll
      for (int y = 0; y < 4; ++y) {
        VEC line[4];
        spread(line, column[0][y], column[1][y], column[2][y], column[3][y]);
#pragma unroll
        for (int x = 0; x < 4; ++x) STORE_FLOATS(line[x], to + (4 * y + x) * V_PLANE);
      }
    }
  }
}

static inline void multiply(__global float *restrict m, __global const float *restrict u,
                            __global const float *restrict v, const Pass pass, const int count) {
  for (int part = 0; part < 16; ++part, u += (size_t)pass.channels * NR) {
    for (int tile = 0; tile < count; tile += MR) {
      VEC sum[MR][NV];
#pragma unroll
      for (int i = 0; i < MR; ++i)
#pragma unroll
        for (int j = 0; j < NV; ++j) sum[i][j] = (VEC)(0.0f);
      __global const float *restrict factors = v + part * V_PLANE + tile * CHUNK;
      __global const float *restrict weights = u;
      for (int c = 0; c < pass.channels; c += CHUNK, factors += (TILES - 1) * CHUNK) {
        const int depth = min(CHUNK, pass.channels - c);
        for (int k = 0; k < depth; ++k, ++factors, weights += NR) {
          VEC weight[NV];
#pragma unroll
          for (int j = 0; j < NV; ++j) weight[j] = LOAD_FLOATS(weights + j * VW);
#pragma unroll
          for (int i = 0; i < MR; ++i) {
            const VEC factor = (VEC)(factors[i * CHUNK]);
#pragma unroll
            for (int j = 0; j < NV; ++j) sum[i][j] = fma(factor, weight[j], sum[i][j]);
          }
        }
      }
      __global float *to = m + part * M_PLANE + tile * NR;
#pragma unroll
      for (int i = 0; i < MR; ++i)
#pragma unroll
        for (int j = 0; j < NV; ++j) STORE_FLOATS(sum[i][j], to + i * NR + j * VW);
    }
  }
}

// Transforms and stores the results of `count` tiles from number `first` on, in the rows of a panel
// from `row` on.
static inline void transform_results(__global float *restrict result,
                                     __global const float *restrict m,
                                     __global const float *bias, const int has_bias,
                                     const Pass pass, const int first, const int count,
                                     const int row) {
  const int rows = min(NR, pass.rows - row);
  float lane[NR];
  for (int r = 0; r < NR; ++r) lane[r] = has_bias && r < rows ? bias[row + r] : 0.0f;
  VEC add[NV];
#pragma unroll
  for (int j = 0; j < NV; ++j) add[j] = LOAD_FLOATS(lane + j * VW);
  for (int t = 0; t < count; ++t, m += NR) {
    const Tile tile = tile_at(pass, first + t);
    const int lines = min(2, pass.size[1] - 2 * tile.y);
    const int columns = min(2, pass.size[2] - 2 * tile.x);
    __global float *to =
        result + row + ((long)tile.image * pass.result_plane +
                        (long)2 * tile.y * pass.size[2] + 2 * tile.x) * pass.rows;
#pragma unroll
    for (int j = 0; j < NV; ++j) {
      VEC upper[4], lower[4];
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        __global const float *plane = m + x * M_PLANE + j * VW;
        const VEC a = LOAD_FLOATS(plane), b = LOAD_FLOATS(plane + 4 * M_PLANE);
        const VEC c = LOAD_FLOATS(plane + 8 * M_PLANE), d = LOAD_FLOATS(plane + 12 * M_PLANE);
        upper[x] = a + b + c;
        lower[x] = b - c - d;
      }
#pragma unroll
      for (int y = 0; y < 2; ++y) {
        if (y == lines) break;
        const VEC *sums = y ? lower : upper;
        __global float *line = to + (long)y * pass.size[2] * pass.rows + j * VW;
        const int lanes = max(rows - j * VW, 0);
        store_few(line, sums[0] + sums[1] + sums[2] + add[j], lanes);
        if (columns == 2)
          store_few(line + pass.rows, sums[1] - sums[2] - sums[3] + add[j], lanes);
      }
    }
  }
}

TASK __kernel void winograd_last_filters(TENSOR(u), CTENSOR(weight), const Pass pass) {
  const int panel = get_global_id(0), vectors = pass.channels / VW;
  transform_filters(PTR(float, u) + panel * U_SIZE, CPTR(float, weight), pass, panel * NR,
                    FIRST(1, vectors) * VW, LAST(1, vectors) * VW);
}

TASK __kernel void winograd_last_blocks(TENSOR(result), TENSOR(scratch), CTENSOR(source),
                                        CTENSOR(zeros), CTENSOR(u), CTENSOR(bias),
                                        const int has_bias, const Pass pass, const int tiles) {
  __global float *v = PTR(float, scratch) + get_global_id(0) * 16 * (V_PLANE + M_PLANE);
  __global float *m = v + 16 * V_PLANE;
  const int panels = DIVIDE_UP(pass.rows, NR), groups = DIVIDE_UP(tiles, MR);
  const int last = min(tiles, LAST(0, groups) * MR);
  for (int tile = FIRST(0, groups) * MR; tile < last; tile += TILES) {
    const int count = min(TILES, last - tile);
    transform_pixels(v, CPTR(float, source), CPTR(float, zeros), pass, tile, count, 0,
                     pass.channels);
    for (int panel = 0; panel < panels; ++panel) {
      multiply(m, CPTR(float, u) + panel * U_SIZE, v, pass, count);
      transform_results(PTR(float, result), m, CPTR(float, bias), has_bias, pass, tile, count,
                        panel * NR);
    }
  }
}

TASK __kernel void winograd_last_pixels(TENSOR(v), CTENSOR(source), CTENSOR(zeros),
                                        const Pass pass, const int tiles) {
  const int vectors = pass.channels / VW, tile = get_global_id(0) * TILES;
  transform_pixels(PTR(float, v) + get_global_id(0) * 16 * V_PLANE, CPTR(float, source),
                   CPTR(float, zeros), pass, tile, min(TILES, tiles - tile),
                   FIRST(1, vectors) * VW, LAST(1, vectors) * VW);
}

TASK __kernel void winograd_last_panels(TENSOR(result), TENSOR(scratch), CTENSOR(v),
                                        CTENSOR(weight), CTENSOR(bias), const int has_bias,
                                        const Pass pass, const int tiles) {
  __global float *u = PTR(float, scratch) + get_global_id(0) * (U_SIZE + 16 * M_PLANE);
  __global float *m = u + U_SIZE;
  const int panels = DIVIDE_UP(pass.rows, NR);
  for (int panel = FIRST(0, panels); panel < LAST(0, panels); ++panel) {
    transform_filters(u, CPTR(float, weight), pass, panel * NR, 0, pass.channels);
    for (int tile = 0; tile < tiles; tile += TILES) {
      const int count = min(TILES, tiles - tile);
      multiply(m, u, CPTR(float, v) + (size_t)(tile / TILES) * 16 * V_PLANE, pass, count);
      transform_results(PTR(float, result), m, CPTR(float, bias), has_bias, pass, tile, count,
                        panel * NR);
    }
  }
}
