// Element-wise kernel of the GPU family (pointwise.clh): a work-item computes WIDTH adjacent
// elements of a row. The geometry counts vectors of WIDTH elements. Where 32 bits suffice for every
// vector's number and offset in bytes, INDEX is uint and OFFSET_TYPE int. Grid: enough work-items,
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

#define INPUT(k, x) (__global const MEM(IN##k) *)(x##_base + x##_offset + OFFSET(k + 1))
#define OUTPUT (__global MEM(OUT) *)(out_base + out_offset + OFFSET(0))
#if WIDTH > 1
// Contiguous along the row, or one element for it. A row is a whole number of vectors.
#define OPERAND_0(k, x) const V x = FIT##k((V)(CAT(convert_, T)(LOAD(IN##k, INPUT(k, x), 0))));
#define OPERAND_1(k, x) const V x = FIT##k(CONVERT(T, LOADV(IN##k, INPUT(k, x), 0)));
#else
#define OPERAND_0(k, x) \
  const T x = FIT##k(ELEMENT(IN##k, x##_base + x##_offset + OFFSET(k + 1), 0, 0));
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
  STOREV(OUT, OUTPUT, 0, EXPR);
#else
  STORE_VALUE(OUT, OUTPUT, 0, VALUE(OUT, EXPR));
#endif
}
