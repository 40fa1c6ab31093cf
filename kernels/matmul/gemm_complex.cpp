#include "kernels/matmul/gemm_complex.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_real.h>

#include "kernels/matmul/gemm.h"
#include "kernels/pointwise/expression.h"

namespace ocl {
namespace {

constexpr PointwiseOp kTimes{"times", nullptr, kAnyType, "c_mul(a, s0)"};
constexpr PointwiseOp kTimesI{"times_i", nullptr, kAnyType, "i_times(c_mul(a, s0))"};
constexpr PointwiseOp kI{"i", nullptr, kAnyType, "i_times(a)"};

// A factor of 1 is not multiplied, as in BLAS, because infinity times 1 + 0i has a NaN.
void scale(const at::Tensor& out, const at::Tensor& matrix, const c10::Scalar& factor) {
  if (factor.equal(1)) {
    out.copy_(matrix);
  } else {
    evaluate(kTimes, out, {matrix}, out.scalar_type(), {factor});
  }
}

// A row-major complex matrix as a real one with twice the columns.
at::Tensor parts(const at::Tensor& matrix) { return at::view_as_real(matrix).flatten(-2); }

// The real matrix m with parts(a) m = parts(a * b * alpha): row 2 p of m is row p of alpha b, and
// row 2 p + 1 is that row times i.
at::Tensor real_factor(const at::Tensor& b, const c10::Scalar& alpha) {
  std::vector<int64_t> sizes = b.sizes().vec();
  sizes.insert(sizes.end() - 1, 2);
  const at::Tensor rows = at::empty(sizes, b.options());
  scale(rows.select(-2, 0), b, alpha);
  if (alpha.equal(1)) {
    evaluate(kI, rows.select(-2, 1), {b}, b.scalar_type());
  } else {
    evaluate(kTimesI, rows.select(-2, 1), {b}, b.scalar_type(), {alpha});
  }
  return at::view_as_real(rows).flatten(-2).flatten(-3, -2);
}

}  // namespace

void gemm_complex(const at::Tensor& out, const at::Tensor& a_any, const at::Tensor& b_any,
                  const c10::Scalar& alpha, const at::Tensor& c, const c10::Scalar& beta) {
  const bool direct = out.is_contiguous() && !out.is_conj() && !out.is_neg();
  const at::Tensor product = direct ? out : at::empty(out.sizes(), out.options());
  const at::Tensor a = a_any.resolve_conj().contiguous(), b = b_any.resolve_conj();
  const bool has_c = c.defined() && !beta.equal(0);
  if (has_c) scale(product, c.resolve_conj(), beta);
  const at::Tensor result = parts(product);
  gemm(result, parts(a), real_factor(b, alpha), 1, has_c ? result : at::Tensor(), has_c ? 1 : 0);
  if (!direct) out.copy_(product);
}

}  // namespace ocl
