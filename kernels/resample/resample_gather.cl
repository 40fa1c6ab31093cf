// out[u][d][h][w][c] = in[u][ds[d]][hs[h]][ws[w]][c]: nearest neighbours and padding. The first
// `missing` of the three dimensions have size 1 and no table.
//   IN: unsigned type as wide as an element; PIXELS: units are the pixels of out, inner elements
//   their channels; else units are rows of out, and there are no channels
// Grid (grid.clh): units, inner elements.
#include "common.clh"
#include "types.clh"
#include "grid.clh"

typedef struct {
  long in[3], out[3];
} Sizes;

GRID __kernel void resample_gather(CTENSOR(in), TENSOR(out), CTENSOR(ds), CTENSOR(hs), CTENSOR(ws),
                                   const ulong units, const ulong inner, const ulong per_item,
                                   const ulong missing, const Sizes sizes) {
  __global const int *column = CPTR(int, ws);
  FOR_UNITS(u, units, per_item) {
    ulong row = u;
#ifdef PIXELS
    const ulong w = row % sizes.out[2];
    row /= sizes.out[2];
#endif
    const ulong h = row % sizes.out[1];
    row /= sizes.out[1];
    const ulong d = row % sizes.out[0];
    row /= sizes.out[0];
    row = row * sizes.in[0] + (missing > 0 ? 0 : CPTR(int, ds)[d]);
    row = row * sizes.in[1] + (missing > 1 ? 0 : CPTR(int, hs)[h]);
    row *= sizes.in[2];
    __global MEM(IN) *to = PTR(MEM(IN), out) + u * inner;
#ifdef PIXELS
    __global const MEM(IN) *from = CPTR(MEM(IN), in) + (row + column[w]) * inner;
    FOR_INNER(i, inner) to[i] = from[i];
#else
    __global const MEM(IN) *from = CPTR(MEM(IN), in) + row;
    FOR_INNER(i, inner) to[i] = from[column[i]];
#endif
  }
}
