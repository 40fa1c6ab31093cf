// Comparisons whose result is reduced: equal, isin.
#include <ATen/native/TensorCompare.h>
#include <ATen/ops/all.h>
#include <ATen/ops/any.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/ne.h>

#include "kernels/core/registration.h"
#include "native/pointwise_compare.h"

namespace ocl {
namespace {

// Compares each element with each test element; for many, PyTorch sorts instead.
void isin(const at::Tensor& elements, const at::Tensor& tests, bool invert, const at::Tensor& out) {
  const at::Tensor rows = elements.unsqueeze(-1), flat = tests.flatten();
  out.copy_(invert ? rows.ne(flat).all(-1) : rows.eq(flat).any(-1));
}

}  // namespace

namespace native {

OCL_NATIVE("equal", equal);
OCL_COMPLEX("equal");
bool equal(const Tensor& self, const Tensor& other) {
  TORCH_CHECK(self.device() == other.device(),
              "Cannot compare two tensors on different devices. Got: ", self.device(), " and ",
              other.device());
  return self.sizes() == other.sizes() && (self.numel() == 0 || self.eq(other).all().item<bool>());
}

}  // namespace native
}  // namespace ocl

namespace at::native {

OCL_STUB("isin", isin_default_stub, &ocl::isin)

}  // namespace at::native
