// Float convolution 3x3 of stride 1 on CPU devices (conv_winograd.clh), in one of two orders. By
// tiles, for large images: a task loops over blocks of tiles. The transformed inputs and products
// of a block stay in the second level cache. By rows, for many channels of small images: a task
// loops over groups of VW rows. The transformed filters of a group, which are larger than the
// images, stay in the cache.
//
//   by tiles  winograd_filters  grid (ceil(rows / VW), tasks): u, planes of u_plane floats
//             winograd_tiles    grid (tasks). scratch: of each task BORDER + 16 *
//                               (PLANE(channels) + PLANE(rows rounded up to MR)) floats
//   by rows   winograd_inputs   grid (blocks, tasks). v: of each block 16 * PLANE(channels) floats;
//                               scratch: of each task BORDER + 16 * PLANE(1) floats
//             winograd_rows     grid (tasks). scratch: of each task 16 * (PLANE(VW) + VW * channels
//                               + VW) floats
//
// Results are [images][rows][height][width]. The epilogue: conv_finish.clh.
#include "conv_winograd.clh"

TASK __kernel void winograd_filters(TENSOR(u), CTENSOR(weight), const Filters f,
                                    const long u_plane) {
  const int row = get_global_id(0) * VW;
  const int first = FIRST(1, f.channels);
  transform_filters(PTR(float, u) + (size_t)row * f.channels + (size_t)first * MR, u_plane,
                    (size_t)f.channels * MR, CPTR(float, weight), f, row, first,
                    LAST(1, f.channels) - first);
}

TASK __kernel void winograd_tiles(TENSOR(out), TENSOR(scratch), CTENSOR(in), CTENSOR(u),
                                  CTENSOR(bias), CTENSOR(residual), const int has_bias,
                                  const Geometry g, const long u_plane, const int tiles) {
  const size_t m_plane = PLANE(ROUND_UP(g.rows, MR));
  const size_t size = BORDER + 16 * (PLANE(g.channels) + m_plane);
  __global float *border = PTR(float, scratch) + get_global_id(0) * size;
  __global float *v = border + BORDER, *m = v + 16 * PLANE(g.channels);
  const int vectors = DIVIDE_UP(tiles, VW);
  const int last = min(tiles, LAST(0, vectors) * VW);
  Run runs[BLOCK];
  for (int tile = FIRST(0, vectors) * VW; tile < last; tile += BLOCK) {
    const int count = min(BLOCK, last - tile);
    const int run_count = find_runs(runs, g, tile, count);
    for (int c = 0; c < g.channels; ++c)
      transform_inputs(v + (size_t)c * BLOCK, PLANE(g.channels), border, CPTR(float, in), g, runs,
                       run_count, c);
    multiply(m, m_plane, CPTR(float, u), u_plane, v, g.rows, g.channels, count);
    transform_results(PTR(float, out), CPTR(float, residual), m, m_plane, g, runs, run_count, 0,
                      g.rows, has_bias ? CPTR(float, bias) : 0);
  }
}

TASK __kernel void winograd_inputs(TENSOR(v), TENSOR(scratch), CTENSOR(in), const Geometry g,
                                   const int tiles) {
  const size_t block = get_global_id(0), task = get_global_id(1) * get_global_size(0) + block;
  __global float *border = PTR(float, scratch) + task * (BORDER + 16 * PLANE(1));
  __global float *own = border + BORDER;
  __global float *lines = PTR(float, v) + block * 16 * PLANE(g.channels);
  const int tile = block * BLOCK;
  Run runs[BLOCK];
  const int run_count = find_runs(runs, g, tile, min(BLOCK, tiles - tile));
  const int last = LAST(1, g.channels);
  for (int c = FIRST(1, g.channels); c < last; ++c) {
    __global float *line = lines + (size_t)c * BLOCK;
    // The line after this task's last channel belongs to another task, and must not be overwritten.
    const int apart = c + 1 == last && last < g.channels;
    transform_inputs(apart ? own : line, apart ? PLANE(1) : PLANE(g.channels), border,
                     CPTR(float, in), g, runs, run_count, c);
    for (int part = 0; apart && part < 16; ++part)
      for (int x = 0; x < BLOCK; x += VW)
        STORE_VEC(LOAD_VEC(own + part * PLANE(1) + x), line + part * PLANE(g.channels) + x);
  }
}

TASK __kernel void winograd_rows(TENSOR(out), TENSOR(scratch), CTENSOR(v), CTENSOR(weight),
                                 CTENSOR(bias), CTENSOR(residual), const int has_bias,
                                 const Geometry g, const Filters f, const int tiles) {
  const size_t u_plane = (size_t)VW * g.channels + VW;
  __global float *u = PTR(float, scratch) + get_global_id(0) * 16 * (u_plane + PLANE(VW));
  __global float *m = u + 16 * u_plane;
  const int groups = DIVIDE_UP(g.rows, VW);
  Run runs[BLOCK];
  for (int row = FIRST(0, groups) * VW; row < LAST(0, groups) * VW; row += VW) {
    const int rows = min(VW, g.rows - row);
    transform_filters(u, u_plane, (size_t)MR * g.channels, CPTR(float, weight), f, row, 0,
                      g.channels);
    for (int tile = 0; tile < tiles; tile += BLOCK) {
      const int count = min(BLOCK, tiles - tile);
      const int run_count = find_runs(runs, g, tile, count);
      multiply(m, PLANE(VW), u, u_plane,
               CPTR(float, v) + tile / BLOCK * 16 * PLANE(g.channels), rows, g.channels, count);
      transform_results(PTR(float, out), CPTR(float, residual), m, PLANE(VW), g, runs, run_count,
                        row, rows, has_bias ? CPTR(float, bias) : 0);
    }
  }
}
