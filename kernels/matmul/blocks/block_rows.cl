// Rows of weights in the blocks of GGUF files as numbers of the type STORE. A unit is a row, an
// element is a part of 32 weights (weight_blocks.clh, grid.clh).
#define VW 16
#include "weight_blocks.clh"
#include "grid.clh"

GRID __kernel void block_rows(TENSOR(out), CTENSOR(blocks), const ulong rows, const ulong parts,
                              const ulong per_item) {
  FOR_UNITS(row, rows, per_item) FOR_INNER(part, parts) {
    __global const uchar *bytes = CPTR(uchar, blocks) + row * ROW_BYTES(parts);
    __global STORE *to = PTR(STORE, out) + 32 * (row * parts + part);
    __global const uchar *block = bytes + part / PARTS * BLOCK_BYTES;
    STORE_VEC(weights_of(block, (int)(part % PARTS), 0), to);
    STORE_VEC(weights_of(block, (int)(part % PARTS), 1), to + 16);
  }
}
