// The second launch of a product that was split along k. The sum over partial[parts][batches][m][n]
// has the order of the parts: out = activation(alpha * sum + beta * C + residual). Defines: those
// of element.clh and epilogue.clh, HAS_C. Global size (at least n, m, batches).
#include "element.clh"
#define V COMPUTE
#include "epilogue.clh"

__kernel void gemm_sum(TENSOR(out), CTENSOR(partial), CTENSOR(c), CTENSOR(residual),
                       const int n, const int parts, const long ld_out, const long c_row_stride,
                       const long c_column_stride, const long residual_row,
                       const long residual_column, const long c_batch, const long residual_batch,
                       const long out_batch, const COMPUTE alpha, const COMPUTE beta) {
  const long column = get_global_id(0);
  const long row = get_global_id(1);
  const long batch = get_global_id(2);
  if (column >= n) return;
  const long part_size = (long)get_global_size(2) * get_global_size(1) * n;
  __global const COMPUTE *restrict from =
      CPTR(COMPUTE, partial) + (batch * get_global_size(1) + row) * n + column;
  COMPUTE sum = 0;
  for (int part = 0; part < parts; ++part) sum += from[part * part_size];
  COMPUTE value = alpha * sum;
#if HAS_C
  value += beta * LOAD(CPTR(STORE, c),
                       batch * c_batch + row * c_row_stride + column * c_column_stride);
#endif
#if HAS_RESIDUAL
  value += LOAD(CPTR(STORE, residual),
                batch * residual_batch + row * residual_row + column * residual_column);
#endif
  STORE_TO(PTR(STORE, out), batch * out_batch + row * ld_out + column, ACTIVATE(value));
}
