// Weighted sums of adjacent pixels (a band matrix, kernels/image/band.h) of the CPU family.
//   IN, OUT; T the type of weights and sums; TAPS weights for each output, all inside of the input
//   BYTES: uint8 in and out, weights in units of 2^-SHIFT; UNSIGNED: sums may need 32 bits
// band_rows: along rows. Vectors hold WIDTH outputs in [same_from, same_to), where all outputs have
// the same weights and each starts one pixel after the one before (a blur). Elsewhere they hold
// LANES weights.
// band_columns: along columns; vectors hold WIDTH adjacent columns.
// Grid: tasks; a task computes `per_task` rows of the output.
#include "common.clh"
#include "types.clh"
#include "image_band.clh"

#define TAKE(p, i) CONVERT(SUM, LOADV(IN, p, i))
#define TAKE1(p, i) CAT(convert_, SUM)(LOAD(IN, p, i))
#if WIDTH == 1
#define ROUNDV(x) ROUND(, x)
#else
#define ROUNDV(x) ROUND(WIDTH, x)
#endif

static inline SUM one_sum(__global const MEM(IN) *x, __global const T *w) {
  SUM sum = START;
  for (int k = 0; k < TAPS; ++k) sum += TAKE1(x, k) * (SUM)w[k];
  return sum;
}

#ifdef ROWS
// Computes a row of the output, skipping elements with zero weights.
static void sum_again(__global const MEM(IN) *x, __global MEM(OUT) *y,
                      __global const int *start, __global const T *weight, const ulong out_size) {
  for (ulong o = 0; o < out_size; ++o) {
    SUM sum = START;
    for (int k = 0; k < TAPS; ++k)
      ADD_WEIGHTED(sum, TAKE1(x, start[o] + k), (SUM)weight[o * TAPS + k])
    STORE(OUT, y, o, ROUND(, sum));
  }
}

TASK __kernel void band_rows(CTENSOR(in), TENSOR(out), CTENSOR(starts), CTENSOR(weights),
                             const ulong rows, const ulong in_size, const ulong out_size,
                             const ulong per_task, const ulong same_from, const ulong same_to) {
  __global const int *start = CPTR(int, starts);
  __global const T *weight = CPTR(T, weights);
  const ulong last = min((get_global_id(0) + 1) * per_task, rows);
  for (ulong row = get_global_id(0) * per_task; row < last; row += AT_ONCE) {
    __global const MEM(IN) *x = CPTR(MEM(IN), in) + row * in_size;
    __global MEM(OUT) *y = PTR(MEM(OUT), out) + row * out_size;
    LARGEST
#ifdef SAME
    ulong o = 0;
#define ONE_SUM(o)                                            \
  {                                                           \
    const SUM sum = one_sum(x + start[o], weight + (o)*TAPS); \
    STORE(OUT, y, o, ROUND(, sum));                           \
    SEE(sum)                                                  \
  }
    for (; o < same_from; ++o) ONE_SUM(o)
    if (same_from < same_to) {
      __global const T *w = weight + same_from * TAPS;
      const ulong shift = same_from - start[same_from];
      for (; o + WIDTH <= same_to; o += WIDTH) {
        VEC(SUM) sum = (VEC(SUM))(START);
        for (int k = 0; k < TAPS; ++k) sum += TAKE(x, o - shift + k) * (SUM)w[k];
        STOREV(OUT, y, o, ROUNDV(sum));
        SEEV(sum)
      }
    }
    for (; o < out_size; ++o) ONE_SUM(o)
    if (NOT_FINITE) sum_again(x, y, start, weight, out_size);
#else
    // Reads the weights once for AT_ONCE rows. Beyond the last row, computes the last row again.
    ulong offset[AT_ONCE];
    for (int r = 0; r < AT_ONCE; ++r) offset[r] = min((ulong)r, last - 1 - row);
    for (ulong o = 0; o < out_size; ++o) {
      __global const T *w = weight + o * TAPS;
      VEC(SUM) sum[AT_ONCE];
      for (int r = 0; r < AT_ONCE; ++r) sum[r] = (VEC(SUM))(LANE_START);
      for (int k = 0; k < TAPS; k += WIDTH) {
        const VEC(SUM) factor = CONVERT(SUM, VLOAD(w, k));
        for (int r = 0; r < AT_ONCE; ++r)
          sum[r] += TAKE(x, offset[r] * in_size + start[o] + k) * factor;
      }
      for (int r = 0; r < AT_ONCE; ++r) {
#if WIDTH == 1
        const SUM total = sum[r] + START;
#else
        SUM lane[WIDTH], total = START;
        CAT(vstore, WIDTH)(sum[r], 0, lane);
        for (int l = 0; l < WIDTH; ++l) total += lane[l];
#endif
        STORE(OUT, y, offset[r] * out_size + o, ROUND(, total));
        SEE(total)
      }
    }
    if (NOT_FINITE) {
      for (int r = 0; r < AT_ONCE; ++r)
        sum_again(x + offset[r] * in_size, y + offset[r] * out_size, start, weight, out_size);
    }
#endif
  }
}
#else
// Computes the sums of a row of outputs with the same weights; ADD adds a product to a sum.
#define SUM_COLUMNS(ADD)                                                           \
  {                                                                                \
    ulong i = 0;                                                                   \
    for (; i + WIDTH <= inner; i += WIDTH) {                                       \
      VEC(SUM) sum = (VEC(SUM))(START);                                            \
      for (int k = 0; k < TAPS; ++k) ADD(sum, TAKE(x, k * inner + i), (SUM)w[k])   \
      STOREV(OUT, y, i, ROUNDV(sum));                                              \
    }                                                                              \
    for (; i < inner; ++i) {                                                       \
      SUM sum = START;                                                             \
      for (int k = 0; k < TAPS; ++k) ADD(sum, TAKE1(x, k * inner + i), (SUM)w[k])  \
      STORE(OUT, y, i, ROUND(, sum));                                              \
    }                                                                              \
  }

TASK __kernel void band_columns(CTENSOR(in), TENSOR(out), CTENSOR(starts), CTENSOR(weights),
                                const ulong rows, const ulong in_size, const ulong out_size,
                                const ulong per_task, const ulong inner) {
  const ulong last = min((get_global_id(0) + 1) * per_task, rows);
  for (ulong row = get_global_id(0) * per_task; row < last; ++row) {
    const ulong o = row % out_size;
    __global const MEM(IN) *x =
        CPTR(MEM(IN), in) + (row / out_size * in_size + CPTR(int, starts)[o]) * inner;
    __global const T *w = CPTR(T, weights) + o * TAPS;
    __global MEM(OUT) *y = PTR(MEM(OUT), out) + row * inner;
    bool has_zero = false;
    for (int k = 0; k < TAPS; ++k) has_zero |= w[k] == 0;
    if (has_zero)
      SUM_COLUMNS(ADD_WEIGHTED)
    else
      SUM_COLUMNS(ADD_PRODUCT)
  }
}
#endif
