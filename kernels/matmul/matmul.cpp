// The matrix products of PyTorch, whose meta functions do shapes and promotion.
#include <ATen/ops/mul.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>

#include <algorithm>

#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/matmul/gemm.h"
#include "native/matmul.h"

namespace ocl::native {

OCL_COMPLEX("mm.out,bmm.out,addmm.out,baddbmm.out,addmv.out,addbmm,dot,vdot");

OCL_STRUCTURED("mm.out", mm)(const Tensor& self, const Tensor& mat2, const Tensor& out) {
  TORCH_CHECK(self.scalar_type() == mat2.scalar_type(),
              "expected m1 and m2 to have the same dtype, but got: ", self.dtype(),
              " != ", mat2.dtype(), " (on ", ocl_device(self).label(), ")");
  gemm(out, self, mat2, 1, {}, 0);
}

OCL_STRUCTURED("bmm.out", bmm)(const Tensor& self, const Tensor& mat2, const Tensor& out) {
  if (self.size(2) == 0) {
    Tensor(out).zero_();
    return;
  }
  gemm(out, self, mat2, 1, {}, 0);
}

// PyTorch leaves the check of self's shape to the kernels, but gemm() checks it only if beta is not
// 0.
static void check_expands(const Tensor& self, const Scalar& beta, const Tensor& out) {
  if (out.numel() == 0 || beta.equal(0)) self.expand_as(out);
}

OCL_STRUCTURED("addmm.out", addmm)
(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
 const Scalar& alpha, const Tensor& out) {
  check_expands(self, beta, out);
  gemm(out, mat1, mat2, alpha, self, beta);
}

OCL_STRUCTURED("_addmm_activation.out", addmm_activation)
(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
 const Scalar& alpha, bool use_gelu, const Tensor& out) {
  check_expands(self, beta, out);
  gemm(out, mat1, mat2, alpha, self, beta, {use_gelu ? Activation::kGelu : Activation::kRelu, {}});
}

OCL_STRUCTURED("baddbmm.out", baddbmm)
(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
 const Scalar& alpha, const Tensor& out) {
  gemm(out, batch1, batch2, alpha, self, beta);
}

OCL_STRUCTURED("addmv.out", addmv)
(const Tensor& self, const Tensor& mat, const Tensor& vec, const Scalar& beta, const Scalar& alpha,
 const Tensor& out) {
  if (out.numel() == 0) return;
  // These numbers must fit the type, unlike addmm's.
  const c10::Scalar a = as_element(alpha, out.scalar_type());
  const c10::Scalar b = as_element(beta, out.scalar_type());
  gemm(out.unsqueeze(1), mat, vec.unsqueeze(1), a, self.expand_as(out).unsqueeze(1), b);
}

// PyTorch's composition of operators, which keeps the products in the compute type.
OCL_SHARED("addbmm");

// The products that dot() keeps at a time, which bounds its memory.
static constexpr int64_t kMostProducts = int64_t{1} << 21;

OCL_NATIVE("dot", dot);
Tensor dot(const Tensor& self, const Tensor& tensor) {
  TORCH_CHECK(self.dim() == 1 && tensor.dim() == 1, "1D tensors expected, but got ", self.dim(),
              "D and ", tensor.dim(), "D tensors");
  TORCH_CHECK(self.scalar_type() == tensor.scalar_type(),
              "dot : expected both vectors to have same dtype, but found ", self.scalar_type(),
              " and ", tensor.scalar_type());
  TORCH_CHECK(self.numel() == tensor.numel(), "inconsistent tensor size, expected tensor [",
              self.numel(), "] and src [", tensor.numel(),
              "] to have the same number of elements, but got ", self.numel(), " and ",
              tensor.numel(), " elements respectively");
  if (self.scalar_type() == ScalarType::Bool) {
    refuse_type(ocl_device(self), self.scalar_type(), "dot");
  }
  const ScalarType compute = compute_type(self.scalar_type());
  const auto of_part = [&](int64_t first, int64_t count) {
    const auto part = [&](const Tensor& all) { return all.narrow(0, first, count).to(compute); };
    return at::sum(at::mul(part(self), part(tensor)));
  };
  if (self.numel() <= kMostProducts) return of_part(0, self.numel()).to(self.scalar_type());
  std::vector<Tensor> sums;
  for (int64_t first = 0; first < self.numel(); first += kMostProducts) {
    sums.push_back(of_part(first, std::min(kMostProducts, self.numel() - first)));
  }
  return at::stack(sums).sum().to(self.scalar_type());
}

OCL_NATIVE("vdot", vdot);
Tensor vdot(const Tensor& self, const Tensor& other) { return dot(self.conj(), other); }

}  // namespace ocl::native
