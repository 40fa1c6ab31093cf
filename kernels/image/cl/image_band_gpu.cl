// Weighted sums of adjacent pixels (a band matrix, kernels/image/band.h) of the GPU family, over
// [outer][size][inner]. IN, OUT, T, TAPS, BYTES, UNSIGNED, SHIFT as in image_band_cpu.cl.
// Grid: along rows (inner is 1) outputs x outer; along columns inner x outputs * outer.
#include "common.clh"
#include "types.clh"
#include "image_band.clh"

#define TAKE(k) CAT(convert_, SUM)(LOAD(IN, x, (k)*inner))

__kernel void band(CTENSOR(in), TENSOR(out), CTENSOR(starts), CTENSOR(weights), const ulong rows,
                   const ulong in_size, const ulong out_size, const ulong inner) {
#ifdef ROWS
  const ulong o = get_global_id(0), n = get_global_id(1), i = 0;
  if (o >= out_size || n >= rows) return;
#else
  const ulong row = get_global_id(1), i = get_global_id(0);
  if (i >= inner || row >= rows) return;
  const ulong o = row % out_size, n = row / out_size;
#endif
  __global const MEM(IN) *x =
      CPTR(MEM(IN), in) + (n * in_size + CPTR(int, starts)[o]) * inner + i;
  __global const T *w = CPTR(T, weights) + o * TAPS;
  SUM sum = START;
  for (int k = 0; k < TAPS; ++k) sum += TAKE(k) * (SUM)w[k];
  if (sum != sum) {
    sum = START;
    for (int k = 0; k < TAPS; ++k) ADD_WEIGHTED(sum, TAKE(k), (SUM)w[k])
  }
  STORE(OUT, PTR(MEM(OUT), out), (n * out_size + o) * inner + i, ROUND(, sum));
}
