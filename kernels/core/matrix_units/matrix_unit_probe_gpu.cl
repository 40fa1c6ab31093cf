// Tests whether a matrix unit computes correctly (matrix_unit.h). Two sub-groups multiply matrices
// of small integers, whose sums are exact, and add sums that are not 0. right[i] is the number of
// correct sums among those that work-item i compares. Work-group and global size (2 * UNIT_LANES).
#include "common.clh"
#include "matrix_unit.clh"

#define SUB_GROUPS 2
#define ITEMS (SUB_GROUPS * UNIT_LANES)

// Elements from -125 to 125. Adjacent ones differ, and so do those of the two sub-groups.
static inline int number_a(const int sub_group, const int row, const int depth) {
  return (row * 61 + depth * 89 + sub_group * 17) % 251 - 125;
}
static inline int number_b(const int sub_group, const int depth, const int column) {
  return (column * 47 + depth * 103 + sub_group * 29 + 7) % 251 - 125;
}
static inline int number_c(const int row, const int column) { return row * 100 - column * 7 + 3; }

// The bits of an element; the integers are exact in every type.
static inline uint bits_of(const int number) {
#if defined(OPERAND_i8)
  return (uchar)number;
#elif defined(OPERAND_bf16)
  return as_uint((float)number) >> 16;
#else
  const uint bits = as_uint((float)number);
  return number == 0 ? 0 : (bits >> 16 & 0x8000) | ((bits & 0x7FFFFFFF) - 0x38000000) >> 13;
#endif
}

UNIT_KERNEL __attribute__((reqd_work_group_size(ITEMS, 1, 1))) __kernel void probe_matrix_unit(
    TENSOR(right)) {
  __local uint a_tiles[SUB_GROUPS * UNIT_M * UNIT_K_WORDS];
  __local uint b_tiles[SUB_GROUPS * UNIT_N * UNIT_K_WORDS];
  __local UNIT_SUM scratch[SUB_GROUPS * UNIT_SCRATCH], all_sums[SUB_GROUPS * UNIT_M * UNIT_N];
  const int item = get_local_id(0), lane = item % UNIT_LANES, sub_group = item / UNIT_LANES;
  __local uint *a_tile = a_tiles + sub_group * UNIT_M * UNIT_K_WORDS;
  __local uint *b_tile = b_tiles + sub_group * UNIT_N * UNIT_K_WORDS;
  __local UNIT_SUM *sums = all_sums + sub_group * UNIT_M * UNIT_N;
  for (int i = lane; i < UNIT_M * UNIT_N; i += UNIT_LANES) sums[i] = 1 << 24;  // greater than all
  for (int i = lane; i < UNIT_M * UNIT_K_WORDS; i += UNIT_LANES) {
    uint word = 0;
    for (int e = 0; e < UNIT_PER_WORD; ++e) {
      const int depth = i % UNIT_K_WORDS * UNIT_PER_WORD + e;
      word |= bits_of(number_a(sub_group, i / UNIT_K_WORDS, depth)) << (UNIT_BITS * e);
    }
    a_tile[i] = word;
  }
  for (int i = lane; i < UNIT_N * UNIT_K_WORDS; i += UNIT_LANES) {
    uint word = 0;
    for (int e = 0; e < UNIT_PER_WORD; ++e) {
      const int depth = i % UNIT_K_WORDS * UNIT_PER_WORD + e;
      word |= bits_of(number_b(sub_group, depth, i / UNIT_K_WORDS)) << (UNIT_BITS * e);
    }
    b_tile[i] = word;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  UNIT_A_PART a[UNIT_A_PARTS];
  uint b[UNIT_B_PARTS];
  UNIT_SUM c[UNIT_C_PARTS];
  unit_load_a(a_tile, UNIT_K_WORDS, lane, a);
  unit_load_b(b_tile, UNIT_K_WORDS, lane, b);
  for (int i = 0; i < UNIT_C_PARTS; ++i)
    c[i] = number_c(unit_c_row(lane, i), unit_c_column(lane, i));
  unit_multiply(c, a, b, scratch + sub_group * UNIT_SCRATCH, lane);
  for (int i = 0; i < UNIT_C_PARTS; ++i)
    sums[unit_c_row(lane, i) * UNIT_N + unit_c_column(lane, i)] = c[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  int count = 0;
  for (int i = lane; i < UNIT_M * UNIT_N; i += UNIT_LANES) {
    const int row = i / UNIT_N, column = i % UNIT_N;
    int sum = number_c(row, column);
    for (int k = 0; k < UNIT_K; ++k)
      sum += number_a(sub_group, row, k) * number_b(sub_group, k, column);
    count += sums[i] == (UNIT_SUM)sum;
  }
  PTR(int, right)[item] = count;
}
