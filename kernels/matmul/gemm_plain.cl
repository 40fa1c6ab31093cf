// Matrix products, one work-item for each result: out = activation(alpha * op(A) op(B) + beta * C +
// residual). Needs no local memory, no groups and few registers. Defines: those of gemm_gpu.cl that
// do not concern tiles. Global size (at least n, m, batches).
#include "element.clh"
#include "gemm_result.clh"

__kernel void gemm_plain(TENSOR(out), CTENSOR(a), CTENSOR(b), CTENSOR(c), CTENSOR(residual),
                         const GemmSizes sizes, const COMPUTE alpha, const COMPUTE beta) {
  const long column = get_global_id(0), row = get_global_id(1), batch = get_global_id(2);
  if (column >= sizes.n) return;
  __global const STORE *a_matrix = CPTR(STORE, a) + batch * sizes.a_batch;
  __global const STORE *b_matrix = CPTR(STORE, b) + batch * sizes.b_batch;
  COMPUTE sum = 0;
  for (long p = 0; p < sizes.k; ++p) {
#if TRANS_A
    const COMPUTE x = LOAD(a_matrix, p * sizes.ld_a + row);
#else
    const COMPUTE x = LOAD(a_matrix, row * sizes.ld_a + p);
#endif
#if TRANS_B
    const COMPUTE y = LOAD(b_matrix, column * sizes.ld_b + p);
#else
    const COMPUTE y = LOAD(b_matrix, p * sizes.ld_b + column);
#endif
    sum += x * y;
  }
  store_result(PTR(STORE, out), CPTR(STORE, c), CPTR(STORE, residual), &sizes, batch, row, column,
               alpha * sum, beta);
}
