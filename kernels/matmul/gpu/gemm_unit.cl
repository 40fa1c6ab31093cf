// Matrix products by a matrix unit (matrix_unit.clh): out = activation(alpha * op(A) op(B) + beta *
// C + residual), for a batch of matrices. A and B have elements of 16 or 8 bits. `out`, C and the
// residual have the same type, or the type of the unit's sums.
//
// Defines (in addition to those of matrix_unit.clh, epilogue.clh, and element.clh for the result)
//   TRANS_A, TRANS_B, HAS_C, HAS_RESIDUAL, PARTS   as for gemm_gpu.cl
//   WIDE_A, WIDE_B   1: stored rows begin and end at multiples of 16 bytes, if they are along the
//                    depth, else of four elements
//   TM, TN           rows and columns of a work-group's tile
//   SUB_M, SUB_N     of a sub-group's: multiples of UNIT_M and UNIT_N
//
// Work-group (ITEMS, 1, 1), global size (ITEMS * ceil(n / TN), ceil(m / TM), batches * parts). Any
// m, n >= 1, k >= 0. C may be `out` itself.
#include "element.clh"
#include "gemm_result.clh"
#include "matrix_unit.clh"

// Both tiles are in local memory with the depth as the contiguous dimension. 16 bytes more for each
// row spread a column over the banks.
#define WORDS 16  // depth between two barriers
#define TK (WORDS * UNIT_PER_WORD)
#define PITCH (WORDS + 4)
#define SUB_GROUPS_N (TN / SUB_N)
#define SUB_GROUPS (TM / SUB_M * SUB_GROUPS_N)
#define ITEMS (SUB_GROUPS * UNIT_LANES)
#define FRAGMENTS_M (SUB_M / UNIT_M)
#define FRAGMENTS_N (SUB_N / UNIT_N)
// Compilers take long for many copies of an emulation.
#define UNIT_UNROLL (UNIT_EMULATED ? 1 : 16)

// A work-item loads four words at once. If the operand is contiguous along the depth, they are
// adjacent in a row. Otherwise they are one word of each of four rows that are adjacent in memory.
#define A_QUADS (TM * WORDS / 4)
#define B_QUADS (TN * WORDS / 4)
#define A_LOADS DIVIDE_UP(A_QUADS, ITEMS)
#define B_LOADS DIVIDE_UP(B_QUADS, ITEMS)
#define QUAD_ELEMENTS (4 * UNIT_PER_WORD)
// Adjacent work-items take quads of adjacent rows, up to 32 bytes of memory, which a cache loads at
// once. The next work-items take the next word of the same rows.
#define TOGETHER(rows) ((rows) / 4 < 2 * UNIT_PER_WORD ? (rows) / 4 : 2 * UNIT_PER_WORD)
#define QUAD_ROW(number, rows)                                               \
  (((number) / (TOGETHER(rows) * WORDS) * TOGETHER(rows) + (number) % TOGETHER(rows)) * 4)
#define QUAD_WORD(number, rows) ((number) / TOGETHER(rows) % WORDS)

// Four words of a row from `depth` on. Elements from `end` on are zeros.
ALWAYS_INLINE uint4 load_along(__global const UNIT_ELEMENT *row, const long depth, const long end,
                               const bool wide) {
  if (wide) {
    const bool inside = depth < end;
    const uint4 words = *(__global const uint4 *)(row + (inside ? depth : 0));
    return inside ? words : (uint4)(0);
  }
  uint words[4];
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    words[w] = 0;
#pragma unroll
    for (int e = 0; e < UNIT_PER_WORD; ++e) {
      const long at = depth + w * UNIT_PER_WORD + e;
      const uint element = row[at < end ? at : 0];
      words[w] |= (at < end ? element : 0) << (UNIT_BITS * e);
    }
  }
  return (uint4)(words[0], words[1], words[2], words[3]);
}

// The word at `depth` of the rows `row` to row + 3. Beyond the last row, loads the last row again;
// its sums are not stored.
ALWAYS_INLINE uint4 load_across(__global const UNIT_ELEMENT *matrix, const long pitch,
                                const int row, const int rows, const long depth, const long end,
                                const bool wide) {
  uint4 words = 0;
#pragma unroll
  for (int e = 0; e < UNIT_PER_WORD; ++e) {
    const bool inside = depth + e < end;
    __global const UNIT_ELEMENT *from = matrix + (inside ? depth + e : 0) * pitch;
    uint4 elements;
    if (wide) {
      const int first = min(row, rows - 4);
      elements = convert_uint4(*(__global const CAT(UNIT_ELEMENT, 4) *)(from + first));
    } else {
      const int last = rows - 1;
      elements = (uint4)(from[min(row, last)], from[min(row + 1, last)], from[min(row + 2, last)],
                         from[min(row + 3, last)]);
    }
    words |= (inside ? elements : (uint4)(0)) << (uint4)(UNIT_BITS * e);
  }
  return words;
}

ALWAYS_INLINE void put_along(__local uint *tile, const int number, const uint4 words) {
  *(__local uint4 *)(tile + number / (WORDS / 4) * PITCH + number % (WORDS / 4) * 4) = words;
}
ALWAYS_INLINE void put_across(__local uint *tile, const int row, const int word,
                              const uint4 words) {
  __local uint *to = tile + row * PITCH + word;
  to[0] = words.x;
  to[PITCH] = words.y;
  to[2 * PITCH] = words.z;
  to[3 * PITCH] = words.w;
}

// Load number `number` of a tile of `rows` rows, for the depth `next`, and its store to local
// memory. The tile begins at row `first` of `count`. Columns of B count as rows here.
#define ALONG_ROW(number, first, count) min((first) + (number) / (WORDS / 4), (count) - 1)
#define LOAD_ALONG(matrix, ld, first, count, rows, number, wide)                                  \
  load_along((matrix) + (long)ALONG_ROW(number, first, count) * (ld),                             \
             next + (number) % (WORDS / 4) * QUAD_ELEMENTS, last_depth, wide)
#define LOAD_ACROSS(matrix, ld, first, count, rows, number, wide)                                 \
  load_across(matrix, ld, (first) + QUAD_ROW(number, rows), count,                                \
              next + QUAD_WORD(number, rows) * UNIT_PER_WORD, last_depth, wide)
#define PUT_ALONG(tile, rows, number, words) put_along(tile, number, words)
#define PUT_ACROSS(tile, rows, number, words) \
  put_across(tile, QUAD_ROW(number, rows), QUAD_WORD(number, rows), words)
#if TRANS_A
#define LOAD_A LOAD_ACROSS
#define PUT_A PUT_ACROSS
#else
#define LOAD_A LOAD_ALONG
#define PUT_A PUT_ALONG
#endif
#if TRANS_B
#define LOAD_B LOAD_ALONG
#define PUT_B PUT_ALONG
#else
#define LOAD_B LOAD_ACROSS
#define PUT_B PUT_ACROSS
#endif
// There may be fewer last quads than work-items.
#define QUAD(i) (item + (i) * ITEMS)
#define HAS_A_QUAD(i) (A_QUADS % ITEMS == 0 || QUAD(i) < A_QUADS)
#define HAS_B_QUAD(i) (B_QUADS % ITEMS == 0 || QUAD(i) < B_QUADS)

UNIT_KERNEL __attribute__((reqd_work_group_size(ITEMS, 1, 1))) __kernel void gemm_unit(
    TENSOR(out), CTENSOR(a), CTENSOR(b), CTENSOR(c), CTENSOR(residual), const GemmSizes sizes,
    const COMPUTE alpha, const COMPUTE beta, const int parts, const int part_depth,
    const long batches) {
  __local uint4 a_tiles[TM * PITCH / 4], b_tiles[TN * PITCH / 4];
  __local UNIT_SUM scratch[SUB_GROUPS * UNIT_SCRATCH];
  __local uint *a_tile = (__local uint *)a_tiles, *b_tile = (__local uint *)b_tiles;
  const int item = get_local_id(0), lane = item % UNIT_LANES, sub_group = item / UNIT_LANES;
  const int sub_row = sub_group / SUB_GROUPS_N * SUB_M;
  const int sub_column = sub_group % SUB_GROUPS_N * SUB_N;
  const int first_row = group_id(1) * TM, first_column = group_id(0) * TN;
#if PARTS
  const long batch = group_id(2) / parts;
  const int part = group_id(2) % parts;
  const long first_depth = (long)part * part_depth;
  const long last_depth = min((long)sizes.k, first_depth + part_depth);
#else
  const long batch = group_id(2), first_depth = 0, last_depth = sizes.k;
#endif
  __global const UNIT_ELEMENT *a_matrix = CPTR(UNIT_ELEMENT, a) + batch * sizes.a_batch;
  __global const UNIT_ELEMENT *b_matrix = CPTR(UNIT_ELEMENT, b) + batch * sizes.b_batch;

  UNIT_SUM sums[FRAGMENTS_M][FRAGMENTS_N][UNIT_C_PARTS];
#pragma unroll
  for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
    for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
      for (int p = 0; p < UNIT_C_PARTS; ++p) sums[i][j][p] = 0;

  // While a tile is multiplied, the loads of the next tile are in flight to registers.
  for (long here = first_depth - TK; here < last_depth; here += TK) {
    const long next = here + TK;
    uint4 a_next[A_LOADS], b_next[B_LOADS];
    if (next < last_depth) {
#pragma unroll
      for (int i = 0; i < A_LOADS; ++i)
        if (HAS_A_QUAD(i))
          a_next[i] = LOAD_A(a_matrix, sizes.ld_a, first_row, sizes.m, TM, QUAD(i), WIDE_A);
#pragma unroll
      for (int i = 0; i < B_LOADS; ++i)
        if (HAS_B_QUAD(i))
          b_next[i] = LOAD_B(b_matrix, sizes.ld_b, first_column, sizes.n, TN, QUAD(i), WIDE_B);
    }
    if (here >= first_depth) {
#pragma unroll UNIT_UNROLL
      for (int word = 0; word < WORDS; word += UNIT_K_WORDS) {
        UNIT_A_PART left[FRAGMENTS_M][UNIT_A_PARTS];
        uint right[FRAGMENTS_N][UNIT_B_PARTS];
#pragma unroll UNIT_UNROLL
        for (int i = 0; i < FRAGMENTS_M; ++i)
          unit_load_a(a_tile + (sub_row + i * UNIT_M) * PITCH + word, PITCH, lane, left[i]);
#pragma unroll UNIT_UNROLL
        for (int j = 0; j < FRAGMENTS_N; ++j)
          unit_load_b(b_tile + (sub_column + j * UNIT_N) * PITCH + word, PITCH, lane, right[j]);
#pragma unroll UNIT_UNROLL
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll UNIT_UNROLL
          for (int j = 0; j < FRAGMENTS_N; ++j)
            unit_multiply(sums[i][j], left[i], right[j], scratch + sub_group * UNIT_SCRATCH, lane);
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (next < last_depth) {
#pragma unroll
      for (int i = 0; i < A_LOADS; ++i)
        if (HAS_A_QUAD(i)) PUT_A(a_tile, TM, QUAD(i), a_next[i]);
#pragma unroll
      for (int i = 0; i < B_LOADS; ++i)
        if (HAS_B_QUAD(i)) PUT_B(b_tile, TN, QUAD(i), b_next[i]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }

#pragma unroll
  for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
    for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
      for (int p = 0; p < UNIT_C_PARTS; ++p) {
        const long row = first_row + sub_row + i * UNIT_M + unit_c_row(lane, p);
        const long column = first_column + sub_column + j * UNIT_N + unit_c_column(lane, p);
        if (row >= sizes.m || column >= sizes.n) continue;
#if PARTS
        const long matrix = part * batches + batch;
        PTR(COMPUTE, out)[(matrix * sizes.m + row) * sizes.n + column] = sums[i][j][p];
#else
        store_result(PTR(STORE, out), CPTR(STORE, c), CPTR(STORE, residual), &sizes, batch, row,
                     column, alpha * sums[i][j][p], beta);
#endif
      }
}
