// Fractional pooling, whose windows are at random positions, and unpooling.
#include <ATen/Context.h>
#include <ATen/native/FractionalMaxPooling.h>
#include <ATen/ops/empty.h>

#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/pool/pool3d.h"
#include "native/pool_random.h"

namespace ocl {
namespace {

using at::IntArrayRef;
using at::Tensor;

// Writes each element to its index in an image of zeros.
Tensor& unpool(const char* op, const Tensor& self, const Tensor& indices, IntArrayRef output_size,
               int64_t dims, Tensor& out) {
  at::globalContext().alertNotDeterministic(op);
  TORCH_CHECK(static_cast<int64_t>(output_size.size()) == dims, "There should be exactly ", dims,
              " elements in output_size, but got ", output_size.size(), " elements.");
  TORCH_CHECK(indices.scalar_type() == at::kLong,
              "elements in indices should be type int64 but got: ", indices.scalar_type());
  TORCH_CHECK(self.dim() == dims + 1 || self.dim() == dims + 2, "Input to ", op, " should be a ",
              dims + 1, "d or ", dims + 2, "d Tensor, but got a tensor with ", self.dim(),
              " dimensions.");
  TORCH_CHECK(self.sizes() == indices.sizes(),
              "Expected shape of indices to be same as that of the input tensor (", self.sizes(),
              ") but got indices tensor with shape: ", indices.sizes());
  at::DimVector shape(self.sizes());
  for (int64_t d = 1; d < self.dim(); ++d) {
    TORCH_CHECK(self.size(d) > 0, op,
                "(): Expected input to have non-zero size for non-batch dimensions, but got ",
                self.sizes(), " with dimension ", d, " being empty.");
  }
  int64_t planes = 1;
  for (int64_t d = 0; d < self.dim() - dims; ++d) planes *= self.size(d);
  for (int64_t d = 0; d < dims; ++d) shape[self.dim() - dims + d] = output_size[d];
  out.resize_(shape, self.dim() == 4 && dims == 2 ? self.suggest_memory_format()
                                                  : at::MemoryFormat::Contiguous);
  if (out.numel() == 0) return out;
  const DenseOutput image(out);
  image.tensor()
      .zero_()
      .view({planes, -1})
      .scatter_(1, indices.reshape({planes, -1}), self.reshape({planes, -1}));
  image.finish();
  return out;
}

void check_steps(IntArrayRef stride, IntArrayRef padding) {
  TORCH_CHECK(stride.size() == 3,
              "There should be exactly three elements (depth, height, width) in stride, but got: ",
              stride.size(), " elements.");
  TORCH_CHECK(padding.size() == 3,
              "There should be exactly three elements (depth, height, width) in padding, but got: ",
              padding.size(), " elements.");
  TORCH_CHECK(stride[0] > 0 && stride[1] > 0 && stride[2] > 0,
              "strides should be greater than zero, but got stride: ", stride);
}

// The meta function's sum of the sizes of window and output may overflow.
void check_windows(std::string_view op, const Pool3& pool) {
  if (pool.out[0] * pool.out[1] * pool.out[2] == 0) return;
  for (size_t d = 0; d < 3; ++d) {
    TORCH_CHECK(pool.extent[d] > 0 && pool.extent[d] <= pool.in[d], op, "(): windows of size ",
                pool.extent[d], " for an input of size ", pool.in[d]);
  }
}

}  // namespace

namespace native {

OCL_STRUCTURED("fractional_max_pool2d.output", fractional_max_pool2d)
(const Tensor& self, IntArrayRef kernel_size, IntArrayRef /*output_size*/,
 const Tensor& random_samples, const Tensor& output, const Tensor& indices) {
  at::native::fractional_max_pool_check_shape<2>(self, random_samples);
  Pool3 pool = make_pool3(self, output, 2);
  pool.extent = {1, kernel_size[0], kernel_size[1]};
  pool.samples = 2;
  pool.sample = {0, 1, 0};
  check_windows("fractional_max_pool2d", pool);
  max_pool3_forward("fractional_max_pool2d", self, pool, PoolWindows::kFractional, output, indices,
                    random_samples);
}

OCL_STRUCTURED_AS("fractional_max_pool2d_backward.grad_input", fractional_max_pool2d_backward,
                  max_pool3_backward(grad_output, indices, grad_input, 2))

OCL_STRUCTURED("fractional_max_pool3d.output", fractional_max_pool3d)
(const Tensor& self, int64_t kernel_t, int64_t kernel_h, int64_t kernel_w, int64_t, int64_t,
 int64_t, const Tensor& random_samples, int64_t, int64_t, int64_t, int64_t, int64_t,
 const Tensor& output, const Tensor& indices) {
  at::native::fractional_max_pool_check_shape<3>(self, random_samples);
  Pool3 pool = make_pool3(self, output, 3);
  pool.extent = {kernel_t, kernel_h, kernel_w};
  pool.samples = 3;
  pool.sample = {0, 1, 2};
  check_windows("fractional_max_pool3d", pool);
  max_pool3_forward("fractional_max_pool3d", self, pool, PoolWindows::kFractional, output, indices,
                    random_samples);
}

OCL_NATIVE("fractional_max_pool3d_backward.grad_input", fractional_max_pool3d_backward_out);
Tensor& fractional_max_pool3d_backward_out(const Tensor& grad_output, const Tensor& self,
                                           IntArrayRef /*kernel_size*/, IntArrayRef output_size,
                                           const Tensor& indices, Tensor& grad_input) {
  at::DimVector shape(self.sizes());
  for (int64_t d = 0; d < 3; ++d) shape[self.dim() - 3 + d] = output_size[d];
  TORCH_CHECK(grad_output.sizes() == shape,
              "fractional_max_pool3d_backward_out(): gradOutput has the sizes ",
              grad_output.sizes(), ", expected ", IntArrayRef(shape));
  grad_input.resize_as_(self);
  max_pool3_backward(grad_output, indices, grad_input, 3);
  return grad_input;
}

OCL_NATIVE("fractional_max_pool3d_backward", fractional_max_pool3d_backward);
Tensor fractional_max_pool3d_backward(const Tensor& grad_output, const Tensor& self,
                                      IntArrayRef kernel_size, IntArrayRef output_size,
                                      const Tensor& indices) {
  Tensor grad_input = at::empty({0}, self.options());
  return fractional_max_pool3d_backward_out(grad_output, self, kernel_size, output_size, indices,
                                            grad_input);
}

OCL_NATIVE_AS("max_unpool2d.out", max_unpool2d_out,
              unpool("max_unpooling2d_forward_out", self, indices, output_size, 2, out))

OCL_NATIVE("max_unpool2d", max_unpool2d);
Tensor max_unpool2d(const Tensor& self, const Tensor& indices, IntArrayRef output_size) {
  Tensor out = at::empty({0}, self.options());
  return max_unpool2d_out(self, indices, output_size, out);
}

OCL_NATIVE("max_unpool3d.out", max_unpool3d_out);
Tensor& max_unpool3d_out(const Tensor& self, const Tensor& indices, IntArrayRef output_size,
                         IntArrayRef stride, IntArrayRef padding, Tensor& out) {
  check_steps(stride, padding);
  return unpool("max_unpooling3d_forward_out", self, indices, output_size, 3, out);
}

OCL_NATIVE("max_unpool3d", max_unpool3d);
Tensor max_unpool3d(const Tensor& self, const Tensor& indices, IntArrayRef output_size,
                    IntArrayRef stride, IntArrayRef padding) {
  Tensor out = at::empty({0}, self.options());
  return max_unpool3d_out(self, indices, output_size, stride, padding, out);
}

}  // namespace native
}  // namespace ocl
