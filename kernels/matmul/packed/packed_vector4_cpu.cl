// out[n] = weights[n][k] * x[k] with weights of 4 bits on CPU devices: packed_linear for one row of
// x, as in decoding. A task reads its weights as one stream, row after row.
//   GROUP   weights of a group, a power of two from 32 on
//   PAIRS   1: bfloat16, multiplied as pairs (dot_bfloat16_cpu.clh)
// Other defines: packed_weights.clh. Grid (ceil(n / rows_per_task)). k is a multiple of the group
// and of WEIGHTS, the weights of a vector of 32-bit words:
//   lane l has weights 8 * l .. 8 * l + 7, number i in bits POSITION(i) .. POSITION(i) + 3
// Without PAIRS, masked bits are 2^POSITION times the weight, so x is divided by this power of two.
// It is at most 2^12, since half of the weights come from the word's upper 16 bits. Numbers of x
// below 2^-114 lose bits.
//
// With PAIRS, the two weights at bits 4 * i and 4 * i + 16 become a pair: over the bits 0x4300 they
// are the bfloat16 numbers 128 + q. So 128 * scale * sum(x) is subtracted from the offset of a
// group.
//
// Scales of adjacent rows are adjacent in memory, but a row needs the scales of all its groups. So
// the kernel computes blocks of ROWS rows, and transposes the scales of a block first. These are
// too far apart for hardware prefetchers, so the kernel prefetches them while it computes the block
// before.
#include "packed_weights.clh"
#include "lane_sum.clh"

#define ROWS 32
#define LINE 64  // bytes of a cache line
#define WEIGHTS (8 * VW)
#define MOST_WEIGHTS 4096  // weights of a row at a time, whose x and scales are kept
#define MOST_GROUPS (MOST_WEIGHTS / GROUP + VW)  // whole vectors
#define POSITION(i) (4 * ((i) ^ FIRST_UPPER))
// Weight times 2^(POSITION(i) % 16), from one half of the words.
#define WEIGHT(half, i) CAT(convert_float, VW)((half) & (15u << POSITION(i) % 16))
#define WORDS CAT(uint, VW)
UNALIGNED(WORDS)

#if PAIRS
#include "dot_bfloat16_cpu.clh"
#define INPUTS 4  // pairs of numbers
#define INPUT uint16
#define WEIGHT_PAIR(words, i) (((words) >> 4 * (i) & 0x000F000Fu) | 0x43004300u)
#define OFFSET(offset, scale) ((offset) - 128.0f * (scale))
#else
#define INPUTS 8
#define INPUT VEC
#define OFFSET(offset, scale) (offset)
#endif

#define VLOAD(p) CAT(vload, VW)(0, p)
#define VSTORE(value, p) CAT(vstore, VW)(value, 0, p)
#define FOR(i, n) _Pragma("unroll") for (int i = 0; i < n; ++i)

// Sorts the numbers of `count` vectors so that those at even positions come first.
#define EVEN_FIRST(vectors, count)                                                            \
  {                                                                                           \
    VEC sorted[count];                                                                        \
    FOR(i, count / 2) {                                                                       \
      sorted[i] = (VEC)(vectors[2 * i].even, vectors[2 * i + 1].even);                        \
      sorted[i + count / 2] = (VEC)(vectors[2 * i].odd, vectors[2 * i + 1].odd);              \
    }                                                                                         \
    FOR(i, count) vectors[i] = sorted[i];                                                     \
  }

// Puts numbers i, i + 8, .. of x into inputs[i], and returns the sum of each 8 numbers. With PAIRS,
// inputs[i] has the numbers that meet WEIGHT_PAIR(words, i).
ALWAYS_INLINE VEC take_inputs(__local INPUT *inputs, __global const STORE *x) {
  VEC vectors[8], sum = (VEC)(0);
  FOR(i, 8) vectors[i] = LOAD_VEC(x + i * VW);
  EVEN_FIRST(vectors, 8)
  EVEN_FIRST(vectors, 8)
  EVEN_FIRST(vectors, 8)
  FOR(i, 8) sum += vectors[i];
#if PAIRS
  FOR(i, 4) {
    const VEC low = vectors[i ^ FIRST_UPPER], high = vectors[(i ^ FIRST_UPPER) + 4];
    inputs[i] = as_uint16(low) >> 16 | (as_uint16(high) & 0xFFFF0000u);
  }
#else
  FOR(i, 8) inputs[i] = vectors[i] * (1.0f / (1 << POSITION(i) % 16));
#endif
  return sum;
}

// The scales of VW rows in group g. If `counts`, adds the products of their offsets with the
// group's sum of x to `offsets`.
ALWAYS_INLINE VEC scales_of_group(CTENSOR(scales), CTENSOR(zeros), const size_t n, const int row,
                                  const int rows, const int g, const float input_sum,
                                  const bool counts, VEC *offsets) {
  VEC scale, offset;
  if (rows < VW) {
    float some_scales[VW], some_offsets[VW];
    for (int r = 0; r < VW; ++r) {
      const int this_row = row + min(r, rows - 1);
      some_scales[r] = GROUP_SCALE(this_row, g);
      some_offsets[r] = GROUP_OFFSET(this_row, g, some_scales[r]);
    }
    scale = VLOAD(some_scales);
    offset = VLOAD(some_offsets);
  } else {
#if ZEROS == 1
    __global const STORE *pairs = CPTR(STORE, scales) + 2 * (g * n + row);
    const VEC first = LOAD_VEC(pairs), second = LOAD_VEC(pairs + VW);
    scale = (VEC)(first.even, second.even);
    offset = (VEC)(first.odd, second.odd) - 8 * scale;
#else
    const size_t at = g * n + row;
    scale = LOAD_VEC(CPTR(STORE, scales) + at);
    offset = -scale * CAT(convert_float, VW)(VLOAD(CPTR(char, zeros) + at));
#endif
  }
  if (counts) *offsets = fma(OFFSET(offset, scale), (VEC)(input_sum), *offsets);
  return scale;
}

// Prefetches the scales of ROWS rows in group g.
ALWAYS_INLINE void prefetch_scales(CTENSOR(scales), CTENSOR(zeros), const size_t n, const int row,
                                   const int g) {
  const size_t at = g * n + row;
  const int numbers = ZEROS == 1 ? 2 : 1;  // scales per row
  __global const STORE *first = CPTR(STORE, scales) + numbers * at;
  FOR(i, DIVIDE_UP(numbers * ROWS * (int)sizeof(STORE), LINE))
    PREFETCH((__global const char *)first + i * LINE);
#if ZEROS == 2
  PREFETCH(CPTR(char, zeros) + at);
#endif
}

// Lane l has the scale of the group of weights 8 * l of a block.
ALWAYS_INLINE VEC scales_of_lanes(const __local float *scales, const int block) {
#if GROUP >= WEIGHTS
  return (VEC)(scales[block * WEIGHTS / GROUP]);
#elif 2 * GROUP == WEIGHTS
  const float2 s = vload2(block, scales);
#if VW == 16
  return (VEC)((float8)(s.x), (float8)(s.y));
#else
  return (VEC)(s.xxxx, s.yyyy);
#endif
#else  // VW is 16
  const float4 s = vload4(block, scales);
  return (VEC)(s.xxxx, s.yyyy, s.zzzz, s.wwww);
#endif
}

TASK __kernel void packed_linear(TENSOR(out), CTENSOR(x), CTENSOR(weights), CTENSOR(scales),
                                 CTENSOR(zeros), const int m, const int n, const int k,
                                 const int group, const long x_stride, const int rows_per_task) {
  __local INPUT inputs[MOST_WEIGHTS / WEIGHTS][INPUTS];
  __local float input_sums[MOST_WEIGHTS / 8];  // sums of 8 numbers, later of groups
  __local float row_scales[ROWS][MOST_GROUPS];
  __local float results[ROWS];
  const int first_row = get_global_id(0) * rows_per_task;
  const int last_row = min(n, first_row + rows_per_task);
  for (int g = 0; g < min(k, MOST_WEIGHTS) / GROUP; ++g)
    prefetch_scales(scales_base, scales_offset, zeros_base, zeros_offset, n, first_row, g);
  for (int row = first_row; row < last_row; row += ROWS) {
    const int rows = min(ROWS, last_row - row), next_row = row + ROWS;
    for (int r = 0; r < ROWS; ++r) results[r] = 0;
    for (int k0 = 0; k0 < k; k0 += MOST_WEIGHTS) {
      const int count = min(MOST_WEIGHTS, k - k0), groups = count / GROUP, first_group = k0 / GROUP;
      const int blocks = count / WEIGHTS;
      // The same part of a later row.
      const size_t ahead = (size_t)DIVIDE_UP(2 * BYTES_AHEAD, count) * (k / 2);
      if (row == first_row || k > MOST_WEIGHTS) {
        for (int b = 0; b < blocks; ++b) {
          const VEC sums = take_inputs(inputs[b], CPTR(STORE, x) + k0 + b * WEIGHTS);
          VSTORE(sums, input_sums + b * VW);
        }
        for (int g = 0; g < groups; ++g) {
          float sum = 0;
          for (int i = g * (GROUP / 8); i < (g + 1) * (GROUP / 8); ++i) sum += input_sums[i];
          input_sums[g] = sum;
        }
      }
      for (int r = 0; r < rows; r += VW) {
        VEC offsets = VLOAD(results + r);
        for (int g0 = 0; g0 < groups; g0 += VW) {
          VEC tile[VW];
          for (int i = 0; i < VW; ++i) {
            const int g = min(g0 + i, groups - 1);
            tile[i] = scales_of_group(scales_base, scales_offset, zeros_base, zeros_offset, n,
                                      row + r, rows - r, first_group + g, input_sums[g],
                                      g0 + i < groups, &offsets);
          }
          // Sorting even positions first, log2(VW) times, transposes. Not unrolled, because Intel's
          // compiler would take half a minute.
          _Pragma("nounroll") for (int bits = 1; bits < VW; bits *= 2) EVEN_FIRST(tile, VW)
          FOR(i, VW) VSTORE(tile[i], row_scales[r + i] + g0);
        }
        VSTORE(offsets, results + r);
      }
      for (int r = 0; r < rows; ++r) {
        for (int g = r; next_row < last_row && g < groups; g += ROWS)
          prefetch_scales(scales_base, scales_offset, zeros_base, zeros_offset, n, next_row,
                          first_group + g);
        __global const char *words = CPTR(char, weights) + ((size_t)(row + r) * k + k0) / 2;
        VEC total = (VEC)(0);
        for (int b = 0; b < blocks; ++b) {
          __global const uint *block = (__global const uint *)(words + (size_t)b * 4 * VW);
          PREFETCH_TO_L2((__global const char *)block + ahead);
          const WORDS lower = LOAD_UNALIGNED(WORDS, VW, block);
#if PAIRS
          VEC sum = (VEC)(0);
          FOR(i, 4) sum = dot_bfloat16(sum, WEIGHT_PAIR(lower, i), inputs[b][i]);
#else
          const WORDS upper = lower >> 16;
          VEC even = WEIGHT(lower, 0) * inputs[b][0], odd = WEIGHT(lower, 1) * inputs[b][1];
          even = fma(WEIGHT(lower, 2), inputs[b][2], even);
          odd = fma(WEIGHT(lower, 3), inputs[b][3], odd);
          even = fma(WEIGHT(upper, 4), inputs[b][4], even);
          odd = fma(WEIGHT(upper, 5), inputs[b][5], odd);
          even = fma(WEIGHT(upper, 6), inputs[b][6], even);
          odd = fma(WEIGHT(upper, 7), inputs[b][7], odd);
          const VEC sum = even + odd;
#endif
          total = fma(sum, scales_of_lanes(row_scales[r], b), total);
        }
        results[r] += sum_of_lanes(total);
      }
    }
    for (int r = 0; r < rows; ++r) STORE_TO(PTR(STORE, out), row + r, results[r]);
  }
}
