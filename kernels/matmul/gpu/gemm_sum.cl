// The second launch of a product that was split along k. The sum over partial[parts][batches][m][n]
// has the order of the parts: out = activation(alpha * sum + beta * C + residual). Defines: as
// for element.clh and epilogue.clh, and HAS_C. Global size (at least n, m, batches).
#include "element.clh"
#include "gemm_sizes.clh"
#define V COMPUTE
#include "epilogue.clh"

__kernel void gemm_sum(TENSOR(out), CTENSOR(partial), CTENSOR(c), CTENSOR(residual),
                       const Sizes sizes, const COMPUTE alpha, const COMPUTE beta,
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
  COMPUTE value = alpha * sum;
#if HAS_C
  value += beta * LOAD(CPTR(STORE, c),
                       batch * sizes.c_batch + row * sizes.c_row + column * sizes.c_column);
#endif
#if HAS_RESIDUAL
  value += LOAD(CPTR(STORE, residual),
                batch * sizes.residual_batch + row * sizes.residual_row +
                    column * sizes.residual_column);
#endif
  STORE_TO(PTR(STORE, out), batch * sizes.out_batch + row * sizes.ld_out + column,
           ACTIVATE(value));
}
