// Maximum and average pooling of images, contiguous or channels_last, and their gradients.
#include "kernels/pool/pool.h"

#include <ATen/native/AdaptivePooling.h>
#include <ATen/native/Pool.h>
#include <ATen/ops/empty.h>

#include <array>

#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "native/pool.h"

namespace ocl {
namespace {

// Two numbers from a list of one or two; `other` for an empty list.
std::array<int64_t, 2> pair(at::IntArrayRef values, std::array<int64_t, 2> other) {
  if (values.empty()) return other;
  return {values[0], values.size() == 1 ? values[0] : values[1]};
}

Pool make_windows(const at::Tensor& in, const at::Tensor& pooled, std::array<int64_t, 2> kernel,
                  std::array<int64_t, 2> stride, std::array<int64_t, 2> padding,
                  std::array<int64_t, 2> dilation = {1, 1}) {
  Pool pool = make_pool(in, pooled);
  pool.kernel_h = kernel[0], pool.kernel_w = kernel[1];
  pool.stride_h = stride[0], pool.stride_w = stride[1];
  pool.pad_h = padding[0], pool.pad_w = padding[1];
  pool.dilation_h = dilation[0], pool.dilation_w = dilation[1];
  return pool;
}

void check_adaptive(const at::Tensor& image) {
  TORCH_CHECK(image.dim() == 3 || image.dim() == 4,
              "adaptive_avg_pool2d(): Expected 3D or 4D tensor, but got ", image.sizes());
  for (int64_t d = image.dim() - 2; d < image.dim(); ++d) {
    TORCH_CHECK(image.size(d) > 0,
                "adaptive_avg_pool2d(): Expected input to have non-zero size for non-batch "
                "dimensions, but input has sizes ",
                image.sizes(), " with dimension ", d, " being empty");
  }
}

}  // namespace

namespace native {

OCL_STRUCTURED("max_pool2d_with_indices.out", max_pool2d)
(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding,
 IntArrayRef dilation, bool /*ceil_mode*/, const Tensor& out, const Tensor& indices) {
  const auto kernel = pair(kernel_size, {1, 1});
  max_pool(self,
           make_windows(self, out, kernel, pair(stride, kernel), pair(padding, {0, 0}),
                        pair(dilation, {1, 1})),
           false, out, indices);
}

OCL_STRUCTURED("max_pool2d_with_indices_backward.grad_input", max_pool2d_backward)
(const Tensor& grad_output, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
 IntArrayRef padding, IntArrayRef dilation, bool /*ceil_mode*/, const Tensor& indices,
 const Tensor& grad_input) {
  const auto kernel = pair(kernel_size, {1, 1});
  max_pool_backward(grad_output, self,
                    make_windows(self, grad_output, kernel, pair(stride, kernel),
                                 pair(padding, {0, 0}), pair(dilation, {1, 1})),
                    false, indices, grad_input);
}

OCL_STRUCTURED("avg_pool2d.out", avg_pool2d)
(const Tensor& self, int64_t kernel_h, int64_t kernel_w, int64_t stride_h, int64_t stride_w,
 int64_t pad_h, int64_t pad_w, bool /*ceil_mode*/, bool count_include_pad,
 std::optional<int64_t> divisor_override, const Tensor& out) {
  Pool pool = make_windows(self, out, {kernel_h, kernel_w}, {stride_h, stride_w}, {pad_h, pad_w});
  pool.divisor = divisor_override.value_or(0);
  pool.count_padding = count_include_pad;
  avg_pool(self, pool, false, out);
}

OCL_STRUCTURED("avg_pool2d_backward.grad_input", avg_pool2d_backward)
(const Tensor& grad_output, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
 IntArrayRef padding, bool /*ceil_mode*/, bool count_include_pad,
 std::optional<int64_t> divisor_override, const Tensor& grad_input) {
  const auto kernel = pair(kernel_size, {1, 1});
  Pool pool = make_windows(self, grad_output, kernel, pair(stride, kernel), pair(padding, {0, 0}));
  pool.divisor = divisor_override.value_or(0);
  pool.count_padding = count_include_pad;
  avg_pool_backward(grad_output, pool, false, grad_input);
}

OCL_STRUCTURED("adaptive_max_pool2d.out", adaptive_max_pool2d)
(const Tensor& self, IntArrayRef /*output_size*/, const Tensor& out, const Tensor& indices) {
  check_floating(ocl_device(self), self.scalar_type(), "adaptive_max_pool2d");
  max_pool(self, make_pool(self, out), true, out, indices);
}

OCL_STRUCTURED_AS("adaptive_max_pool2d_backward.grad_input", adaptive_max_pool2d_backward,
                  max_pool_backward(grad_output, self, make_pool(self, grad_output), true, indices,
                                    grad_input))

OCL_NATIVE("adaptive_avg_pool2d.out", adaptive_avg_pool2d_out);
Tensor& adaptive_avg_pool2d_out(const Tensor& self, IntArrayRef output_size, Tensor& out) {
  TORCH_CHECK(output_size.size() == 2, "adaptive_avg_pool2d: output_size must be 2");
  check_adaptive(self);
  check_floating(ocl_device(self), self.scalar_type(), "adaptive_avg_pool2d");
  TORCH_CHECK(self.dtype() == out.dtype(), "expected dtype ", self.dtype(),
              " for `output` but got dtype ", out.dtype());
  at::DimVector sizes(self.sizes());
  sizes[self.dim() - 2] = output_size[0];
  sizes[self.dim() - 1] = output_size[1];
  out.resize_(sizes, self.dim() == 4 ? std::optional(self.suggest_memory_format()) : std::nullopt);
  avg_pool(self, make_pool(self, out), true, out);
  return out;
}

OCL_NATIVE("_adaptive_avg_pool2d", adaptive_avg_pool2d);
Tensor adaptive_avg_pool2d(const Tensor& self, IntArrayRef output_size) {
  Tensor out = at::empty({0}, self.options());
  adaptive_avg_pool2d_out(self, output_size, out);
  return out;
}

OCL_NATIVE("_adaptive_avg_pool2d_backward", adaptive_avg_pool2d_backward);
Tensor adaptive_avg_pool2d_backward(const Tensor& grad_output, const Tensor& self) {
  at::native::adaptive_pool_empty_output_check(grad_output, "adaptive_avg_pool2d_backward");
  TORCH_CHECK(grad_output.dim() == 3 || grad_output.dim() == 4,
              "adaptive_avg_pool2d_backward(): Expected 3D or 4D tensor, but got ", self.sizes());
  TORCH_CHECK(self.dtype() == grad_output.dtype(), "expected dtype ", self.dtype(),
              " for `grad_output` but got dtype ", grad_output.dtype());
  const Tensor grad_input = at::empty(self.sizes(), self.options(), self.suggest_memory_format());
  avg_pool_backward(grad_output, make_pool(self, grad_output), true, grad_input);
  return grad_input;
}

}  // namespace native
}  // namespace ocl
