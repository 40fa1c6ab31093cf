// out[n] = weights[n][k] * x[k] on CPU devices: packed_linear for one row of x, as in decoding,
// where memory is the limit. A task reads its weights as one stream, row after row, which
// processors prefetch; several rows at a time are several short streams.
//   GROUP_BLOCKS   blocks of a group; 0: a row is one group, without zeros
// Other defines: packed_weights.clh. Rows are computed in blocks of ROWS_OF_BLOCK, because the
// scales of adjacent rows are adjacent in memory: they are first put in the order of use.
// Grid (ceil(n / rows_per_task)). k is a multiple of the group.
#include "packed_weights.clh"
#include "lane_sum.clh"

#define ROWS_OF_BLOCK 16
#define VLOAD(p) CAT(vload, VW)(0, p)
#define VSTORE(value, p) CAT(vstore, VW)(value, 0, p)
#define FOR(i, n) _Pragma("unroll") for (int i = 0; i < n; ++i)

#if GROUP_BLOCKS == 0

#define AT_ONCE 4  // independent sums

TASK __kernel void packed_linear(TENSOR(out), CTENSOR(x), CTENSOR(weights), CTENSOR(scales),
                                 CTENSOR(zeros), const int m, const int n, const int k,
                                 const int group, const long x_stride, const int rows_per_task) {
  const int first_row = get_global_id(0) * rows_per_task;
  const int last_row = min(n, first_row + rows_per_task);
  __global const STORE *restrict inputs = CPTR(STORE, x);
  for (int row = first_row; row < last_row; ++row) {
    __global const char *restrict bytes = CPTR(char, weights) + (size_t)row * k;
    VEC sum[AT_ONCE];
    FOR(r, AT_ONCE) sum[r] = (VEC)(0);
    int p = 0;
    for (; p + AT_ONCE * BLOCK <= k; p += AT_ONCE * BLOCK) {
      FOR(r, AT_ONCE) {
        const int at = p + r * BLOCK;
        sum[r] = add_products(WEIGHT_BYTES(bytes + at), load_inputs(inputs + at), sum[r]);
      }
    }
    for (; p + BLOCK <= k; p += BLOCK)
      sum[0] = add_products(WEIGHT_BYTES(bytes + p), load_inputs(inputs + p), sum[0]);
    float total = sum_of_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (; p < k; ++p) total += LOAD(inputs, p) * bytes[p];
    STORE_TO(PTR(STORE, out), row, total * GROUP_SCALE(row, 0));
  }
}

#else

#define AT_ONCE (GROUP_BLOCKS < 4 ? GROUP_BLOCKS : 4)
#define MOST_GROUPS (128 / GROUP_BLOCKS)  // at a time, whose x and scales are kept

// Puts the scales of `rows` rows of a group side by side, and adds the products of their offsets
// with the group's sum of x.
ALWAYS_INLINE void take_scales(__local float *row_scales, __local float *results, CTENSOR(scales),
                               CTENSOR(zeros), const int n, const int row, const int rows,
                               const int group, const float input_sum) {
#if ZEROS == 1
  if (rows == ROWS_OF_BLOCK) {
    for (int r = 0; r < ROWS_OF_BLOCK; r += VW) {
      __global const STORE *pairs = CPTR(STORE, scales) + 2 * ((size_t)group * n + row + r);
      const VEC first = LOAD_VEC(pairs), second = LOAD_VEC(pairs + VW);
      const VEC scale = (VEC)(first.even, second.even), zero = (VEC)(first.odd, second.odd);
      VSTORE(scale, row_scales + r);
      VSTORE(VLOAD(results + r) + (zero - 8 * scale) * input_sum, results + r);
    }
    return;
  }
#endif
  for (int r = 0; r < rows; ++r) {
    const float scale = GROUP_SCALE(row + r, group);
    row_scales[r] = scale;
    results[r] += GROUP_OFFSET(row + r, group, scale) * input_sum;
  }
}

TASK __kernel void packed_linear(TENSOR(out), CTENSOR(x), CTENSOR(weights), CTENSOR(scales),
                                 CTENSOR(zeros), const int m, const int n, const int k,
                                 const int group, const long x_stride, const int rows_per_task) {
  __local Inputs blocks[MOST_GROUPS * GROUP_BLOCKS];
  __local float input_sums[MOST_GROUPS], row_scales[ROWS_OF_BLOCK * MOST_GROUPS];
  __local float results[ROWS_OF_BLOCK];
  const int first_row = get_global_id(0) * rows_per_task;
  const int last_row = min(n, first_row + rows_per_task);
  const int groups = k / group;
  for (int row = first_row; row < last_row; row += ROWS_OF_BLOCK) {
    const int rows = min(ROWS_OF_BLOCK, last_row - row);
    for (int r = 0; r < rows; ++r) results[r] = 0;
    for (int g0 = 0; g0 < groups; g0 += MOST_GROUPS) {
      const int count = min(MOST_GROUPS, groups - g0);
      if (row == first_row || groups > MOST_GROUPS) {
        for (int g = 0; g < count; ++g) {
          VEC all_inputs = (VEC)(0);
          FOR(b, GROUP_BLOCKS) {
            const int block = g * GROUP_BLOCKS + b;
            blocks[block] = load_inputs(CPTR(STORE, x) + (size_t)g0 * group + block * BLOCK);
            all_inputs += sum_of_inputs(blocks[block]);
          }
          input_sums[g] = sum_of_lanes(all_inputs);
        }
      }
      for (int g = 0; g < count; ++g) {
        take_scales(row_scales + g * ROWS_OF_BLOCK, results, scales_base, scales_offset, zeros_base,
                    zeros_offset, n, row, rows, g0 + g, input_sums[g]);
      }
      for (int r = 0; r < rows; ++r) {
        __global const char *restrict bytes =
            CPTR(char, weights) + ((size_t)(row + r) * k + (size_t)g0 * group) * BITS / 8;
        VEC total = (VEC)(0);
        for (int g = 0; g < count; ++g) {
          VEC sum[AT_ONCE];
          FOR(i, AT_ONCE) sum[i] = (VEC)(0);
          FOR(b, GROUP_BLOCKS) {
            const int block = g * GROUP_BLOCKS + b;
            const BYTES weight = WEIGHT_BYTES(bytes + (size_t)block * VW);
            sum[b % AT_ONCE] = add_products(weight, blocks[block], sum[b % AT_ONCE]);
          }
          for (int i = 1; i < AT_ONCE; ++i) sum[0] += sum[i];
          total = fma((VEC)(row_scales[g * ROWS_OF_BLOCK + r]), sum[0], total);
        }
        results[r] += sum_of_lanes(total);
      }
    }
    for (int r = 0; r < rows; ++r) STORE_TO(PTR(STORE, out), row + r, results[r]);
  }
}

#endif
