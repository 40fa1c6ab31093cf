// Tests whether the unit "amx" computes correctly (matrix_unit.h). A task multiplies matrices of
// small integers, whose sums are exact, and adds them to sums that are not 0. right[0] is the
// number of correct sums in a block. Memory for the operands follows (Probe::space()).
#include "common.clh"
#include "matrix_unit_amx.clh"
#define SPLITS 0
#include "matrix_unit_amx_pack.clh"

// Elements from -125 to 125. Adjacent ones differ.
static inline int number_a(const int row, const int depth) {
  return (row * 61 + depth * 89) % 251 - 125;
}
static inline int number_b(const int depth, const int column) {
  return (column * 47 + depth * 103 + 7) % 251 - 125;
}
static inline int number_c(const int row, const int column) { return row * 100 - column * 7 + 3; }

// The bits of an element; the integers are exact in every type.
static inline UNIT_ELEMENT bits_of(const int number) {
#if defined(OPERAND_i8)
  return (uchar)number;
#else
  return as_uint((float)number) >> 16;
#endif
}

TASK __kernel void probe_matrix_unit(TENSOR(right)) {
  // b is [columns][depth] for one half of the depth, [depth][columns] for the other one.
  __global uint *a = PTR(uint, right) + 16, *b = a + 2 * STEP_WORDS, *tiles_of_b = b + STEP_WORDS;
  __global uint *block = tiles_of_b + STEP_WORDS, *spare = block + BLOCK * BLOCK;
  __global UNIT_ELEMENT *b_elements = (__global UNIT_ELEMENT *)b;
  for (int i = 0; i < BLOCK; ++i)
    for (int k = 0; k < 2 * UNIT_K; ++k)
      ((__global UNIT_ELEMENT *)a)[i * 2 * UNIT_K + k] = bits_of(number_a(i, k));
  for (int i = 0; i < BLOCK; ++i)
    for (int j = 0; j < BLOCK; ++j)
      ((__global UNIT_SUM *)block)[i * BLOCK + j] = number_c(i, j);
  Tiles tiles;
  tiles_take(&tiles);
  tiles_load(&tiles, block);
  for (int part = 0; part < 2; ++part) {
    const int first = part * UNIT_K;
    for (int k = 0; k < UNIT_K; ++k)
      for (int j = 0; j < BLOCK; ++j)
        b_elements[part ? k * BLOCK + j : j * UNIT_K + k] = bits_of(number_b(first + k, j));
    pack_right(tiles_of_b, b_elements, part ? BLOCK : UNIT_K, UNIT_K, BLOCK, part == 0, spare);
    tiles_multiply(&tiles, (const __global uchar *)a + part * 64, 128, tiles_of_b);
  }
  tiles_store(&tiles, block);
  tiles_release();
  int count = 0;
  for (int i = 0; i < BLOCK; ++i)
    for (int j = 0; j < BLOCK; ++j) {
      int sum = number_c(i, j);
      for (int k = 0; k < 2 * UNIT_K; ++k) sum += number_a(i, k) * number_b(k, j);
      count += ((__global UNIT_SUM *)block)[i * BLOCK + j] == (UNIT_SUM)sum;
    }
  PTR(int, right)[0] = count;
}
