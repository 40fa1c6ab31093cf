// out[n] = weights[n][k] * x[k] with weights of 8 bits on CPU devices: packed_linear for one row of
// x, as in decoding, where memory is the bottleneck. A task reads its weights as one stream, row
// after row, which processors prefetch; several rows at a time would be several short streams.
//   X_SPACE   as for gemv_cpu.cl
// Other defines: packed_weights.clh. Grid (ceil(n / rows_per_task)).
#include "packed_weights.clh"
#include "lane_sum.clh"

#define FOR(i, n) _Pragma("unroll") for (int i = 0; i < n; ++i)
#define AT_ONCE 4  // independent sums
#define WEIGHTS(p) CAT(convert_float, VW)(WEIGHT_BYTES(bytes + (p)))

TASK __kernel void packed_linear(TENSOR(out), CTENSOR(x), CTENSOR(weights), CTENSOR(scales),
                                 CTENSOR(zeros), const int m, const int n, const int k,
                                 const int group, const long x_stride, const int rows_per_task) {
  const int first_row = get_global_id(0) * rows_per_task;
  const int last_row = min(n, first_row + rows_per_task);
  __global const STORE *restrict inputs = CPTR(STORE, x);
#if X_SPACE
  __local VEC x_copy[X_SPACE / VW];
  for (int v = 0; (v + 1) * VW <= k; ++v) x_copy[v] = LOAD_VEC(inputs + v * VW);
#define X(p) x_copy[(p) / VW]
#else
#define X(p) LOAD_VEC(inputs + (p))
#endif
  for (int row = first_row; row < last_row; ++row) {
    __global const char *restrict bytes = CPTR(char, weights) + (size_t)row * k;
    VEC sum[AT_ONCE];
    FOR(r, AT_ONCE) sum[r] = (VEC)(0);
    int p = 0;
    for (; p + AT_ONCE * BLOCK <= k; p += AT_ONCE * BLOCK) {
      PREFETCH_TO_L2(bytes + p + BYTES_AHEAD);
      FOR(r, AT_ONCE) {
        const int at = p + r * BLOCK;
        sum[r] = fma(WEIGHTS(at), X(at), sum[r]);
      }
    }
    for (; p + BLOCK <= k; p += BLOCK)
      sum[0] = fma(WEIGHTS(p), X(p), sum[0]);
    float total = sum_of_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (; p < k; ++p) total += LOAD(inputs, p) * bytes[p];
    STORE_TO(PTR(STORE, out), row, total * GROUP_SCALE(row, 0));
  }
}
