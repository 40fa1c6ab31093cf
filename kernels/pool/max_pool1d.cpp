// max_pool1d of steps beyond 32 bits. The CPU has a kernel for calls without gradients, which
// computes in 64 bits; PyTorch sends all others to max_pool2d, whose steps have 32 bits.
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/MaxPooling.h>
#include <ATen/ops/max_pool1d_native.h>
#include <torch/library.h>

#include <limits>

namespace ocl {
namespace {

using at::IntArrayRef, at::Tensor;

constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();

bool is_large(IntArrayRef steps) { return steps.size() == 1 && steps[0] > kLargest; }

bool differentiable(const Tensor& self) {
  return (self.requires_grad() && at::GradMode::is_enabled()) || self._fw_grad(0).defined() ||
         at::isTensorSubclassLike(self);
}

// Steps longer than the padded row act alike: there is one window, and a dilation is for windows of
// one tap.
Tensor max_pool1d(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                  IntArrayRef dilation, bool ceil_mode) {
  if (differentiable(self) || !(is_large(stride) || is_large(dilation))) {
    return at::native::max_pool1d(self, kernel, stride, padding, dilation, ceil_mode);
  }
  at::native::check_max_pool1d(self, kernel, stride, padding, dilation, ceil_mode);
  const auto shortened = [&](IntArrayRef steps) {
    at::DimVector result(steps);
    if (is_large(steps) && self.size(-1) <= kLargest - 2 * padding[0]) result[0] = kLargest;
    return result;
  };
  return at::native::max_pool1d(self, kernel, shortened(stride), padding, shortened(dilation),
                                ceil_mode);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("max_pool1d", &max_pool1d); }
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("max_pool1d", &max_pool1d); }

}  // namespace
}  // namespace ocl
