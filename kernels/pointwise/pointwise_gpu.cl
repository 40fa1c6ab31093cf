// Element-wise kernel of the GPU family (pointwise.clh): a work-item computes WIDTH adjacent
// elements of one contiguous row (NDIM == 1), else one element. Where 32 bits suffice for every
// element's number and offset in bytes, INDEX is uint and OFFSET_TYPE int. Grid: enough work-items,
// rounded up to the work-group size.
#include "pointwise.clh"

#define OFFSET(k) element_offset(n, &g, k)
#define STRIDE(operand, d) (OFFSET_TYPE)g->stride[(operand) * NDIM + (d)]
static inline OFFSET_TYPE element_offset(INDEX n, const Geometry *g, const int operand) {
  OFFSET_TYPE offset = 0;
  for (int d = 0; d < NDIM - 1; ++d) {
    const INDEX next = n / (INDEX)g->size[d];
    offset += (OFFSET_TYPE)(n - next * (INDEX)g->size[d]) * STRIDE(operand, d);
    n = next;
  }
  return offset + (OFFSET_TYPE)n * STRIDE(operand, NDIM - 1);
}

#if WIDTH > 1
// For contiguous (or single) operands only, and a whole number of vectors.
#define VECTOR_ONE(k, x) const V x = CONVERT(T, LOADV(IN##k, CPTR(MEM(IN##k), x), n * WIDTH));
#define VECTOR_ZERO(k, x) const V x = (V)(CAT(convert_, T)(LOAD(IN##k, CPTR(MEM(IN##k), x), 0)));
#define OPERAND_0(k, x) VECTOR_ZERO(k, x)
#define OPERAND_1(k, x) VECTOR_ONE(k, x)
#else
#define OPERAND_0(k, x) const T x = ELEMENT(IN##k, x##_base + x##_offset + OFFSET(k + 1), 0, 0);
#define OPERAND_1(k, x) OPERAND_0(k, x)
#define OPERAND_2(k, x) OPERAND_0(k, x)
#endif
#define OPERAND_3(k, x) const V x = (V)(x##_value);
#define OPERAND_4(k, x)

__kernel void KERNEL(PARAMS, const Geometry g, const ulong inner FAULT_PARAM) {
  const INDEX n = (INDEX)get_global_id(0);
  if (n >= (INDEX)inner) return;
  EACH_INPUT(OPERAND_)
  CHECK_INPUTS(WIDTH)
#if WIDTH > 1
  STOREV(OUT, PTR(MEM(OUT), out), n * WIDTH, EXPR);
#else
  STORE(OUT, (__global MEM(OUT) *)(out_base + out_offset + OFFSET(0)), 0, VALUE(OUT, EXPR));
#endif
}
