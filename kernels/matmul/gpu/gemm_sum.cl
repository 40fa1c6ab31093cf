// The second launch of a product that was split along k. The sum over partial[parts][batches][m][n]
// has the order of the parts: out = activation(alpha * sum + beta * C + residual). Defines: as
// for element.clh and epilogue.clh, and HAS_C. Global size (at least n, m, batches).
#include "element.clh"
#include "gemm_result.clh"

__kernel void gemm_sum(TENSOR(out), CTENSOR(partial), CTENSOR(c), CTENSOR(residual),
                       const GemmSizes sizes, const COMPUTE alpha, const COMPUTE beta,
                       const int parts, const long rows, const long batches) {
  const long column = get_global_id(0);
  const long row = get_global_id(1);
  const long batch = get_global_id(2);
  if (column >= sizes.n) return;
  const long part_size = batches * rows * sizes.n;
  __global const COMPUTE *restrict from =
      CPTR(COMPUTE, partial) + (batch * rows + row) * sizes.n + column;
  COMPUTE sum = 0;
  for (int part = 0; part < parts; ++part) sum += from[part * part_size];
  store_result(PTR(STORE, out), CPTR(STORE, c), CPTR(STORE, residual), &sizes, batch, row, column,
               alpha * sum, beta);
}
