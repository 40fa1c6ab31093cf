// out[plane][y][x] = in[plane][ys[y]][xs[x]].
//   IN; CHANNELS of an image; FILLED: an index may be -1, which means the channel's fill
// Grid (grid.clh): rows of the output, columns.
#include "common.clh"
#include "types.clh"
#include "grid.clh"

GRID __kernel void image_gather(CTENSOR(in), TENSOR(out), CTENSOR(ys), CTENSOR(xs),
                                CTENSOR(fills), const ulong rows, const ulong out_width,
                                const ulong per_item, const ulong out_height,
                                const ulong in_height, const ulong in_width) {
  FOR_UNITS(row, rows, per_item) {
    const ulong plane = row / out_height;
    const int y = CPTR(int, ys)[row % out_height];
    __global const int *columns = CPTR(int, xs);
    __global const MEM(IN) *from = CPTR(MEM(IN), in) + (plane * in_height + max(y, 0)) * in_width;
    __global MEM(IN) *to = PTR(MEM(IN), out) + row * out_width;
#ifdef FILLED
    const MEM(IN) fill = CPTR(MEM(IN), fills)[plane % CHANNELS];
    FOR_INNER(i, out_width) {
      const int x = columns[i];
      to[i] = x < 0 || y < 0 ? fill : from[x];
    }
#else
    FOR_INNER(i, out_width) to[i] = from[columns[i]];
#endif
  }
}
