// Comparisons that are followed by a reduction: equal, isin.
#include <ATen/native/TensorCompare.h>
#include <ATen/ops/all.h>
#include <ATen/ops/any.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/split.h>

#include "kernels/core/operators/registration.h"
#include "native/pointwise_compare.h"

namespace ocl {
namespace {

constexpr int64_t kComparisons = 1 << 22;  // comparisons at once; each takes a byte

// Compares each element with each test element; if there are many, PyTorch sorts instead.
void isin(const at::Tensor& elements, const at::Tensor& tests, bool invert, const at::Tensor& out) {
  const at::Tensor rows = elements.unsqueeze(-1);
  const int64_t part = std::max<int64_t>(kComparisons / std::max<int64_t>(rows.numel(), 1), 1);
  out.fill_(false);
  for (const at::Tensor& some : tests.flatten().split(part)) {
    out.logical_or_(rows.eq(some).any(-1));
  }
  if (invert) out.logical_not_();
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
