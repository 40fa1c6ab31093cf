// Windows of an image as columns (unfold), and the sums of such columns (fold).
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/UnfoldBackward.h>
#include <ATen/native/im2col_shape_check.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>

#include "kernels/core/grids/grid.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "native/windows.h"

namespace ocl {
namespace {

using Pair = std::array<int64_t, 2>;

struct Windows {  // the struct in col2im.cl
  Pair out, windows, taps, dilation, padding, stride;
};

Pair pair(at::IntArrayRef values) { return {values[0], values[1]}; }

int64_t count_windows(const Windows& w, int dim) {
  const int64_t reach = w.dilation[dim] * (w.taps[dim] - 1) + 1;
  return (w.out[dim] + 2 * w.padding[dim] - reach) / w.stride[dim] + 1;
}

Windows windows_of(at::IntArrayRef out, at::IntArrayRef kernel, at::IntArrayRef dilation,
                   at::IntArrayRef padding, at::IntArrayRef stride) {
  Windows w{pair(out), {}, pair(kernel), pair(dilation), pair(padding), pair(stride)};
  w.windows = {count_windows(w, 0), count_windows(w, 1)};
  return w;
}

void check_pairs(std::initializer_list<std::pair<const char*, at::IntArrayRef>> all) {
  for (const auto& [name, values] : all) {
    TORCH_CHECK(values.size() == 2, "It is expected ", name, " equals to 2, but got size ",
                values.size());
    // This limit keeps sums and products of two numbers within int64.
    TORCH_CHECK(std::max(values[0], values[1]) < int64_t{1} << 31, name, " is too large: ", values);
  }
}

struct SumWindows {
  ScalarType type;

  KernelSource source(Device& device) const {
    Defines defines = compute_defines(compute_type(type));
    define_grid(defines, device);
    defines.set("IN", dtype_name(type));
    return {"col2im.cl", "col2im", defines};
  }
};

// columns: [planes, kernel, windows]; out: [planes, out]; both contiguous.
void sum_windows(const at::Tensor& columns, const at::Tensor& out, const Windows& windows) {
  if (out.numel() == 0) return;
  Device& device = ocl_device(out);
  const ScalarType type = out.scalar_type();
  check_device_has(device, type, "col2im");
  const auto inner = static_cast<size_t>(windows.out[1]);
  const size_t units = out.numel() / inner;
  const UnitGrid grid = unit_grid(device, units, inner, 8 * windows.taps[0] * windows.taps[1]);
  launch(stream_of(out), find_kernel(device, SumWindows{type}), grid.global, grid.local,
         view(columns), view(out), uint64_t{units}, uint64_t{inner}, grid.per_item, windows);
}

// The gradient of Tensor.unfold(), whose windows begin `step` elements apart.
void unfold_backward(at::Tensor& grad_in, const at::Tensor& grad, int64_t dim, int64_t size,
                     int64_t step) {
  if (grad_in.dim() == 0) {
    grad_in.copy_(grad.sum());
    return;
  }
  dim = at::maybe_wrap_dim(dim, grad_in.dim());
  const int64_t in = grad_in.size(dim);
  TORCH_CHECK(0 <= size && size <= in && step > 0, "unfold_backward: windows of size ", size,
              " with step ", step, " of a dimension of size ", in);
  at::DimVector shape(grad_in.sizes());
  shape[dim] = (in - size) / step + 1;
  shape.push_back(size);
  TORCH_CHECK(grad.sizes() == shape, "unfold_backward: grad has sizes ", grad.sizes(),
              ", but the windows have ", at::IntArrayRef(shape));
  // grad: [..., windows (at dim), ..., size].
  const at::Tensor columns = grad.movedim(dim, -1).contiguous();
  const at::Tensor last = grad_in.movedim(dim, -1);
  const DenseOutput out(last);
  sum_windows(columns, out.tensor(),
              {.out = {1, last.size(-1)},
               .windows = {1, grad.size(dim)},
               .taps = {1, size},
               .dilation = {1, 1},
               .padding = {0, 0},
               .stride = {1, step}});
  out.finish();
}

}  // namespace

namespace native {

OCL_NATIVE("im2col.out", im2col_out);
OCL_COMPLEX("im2col.out");
Tensor& im2col_out(const Tensor& self, IntArrayRef kernel, IntArrayRef dilation,
                   IntArrayRef padding, IntArrayRef stride, Tensor& out) {
  check_pairs(
      {{"kernel_size", kernel}, {"dilation", dilation}, {"padding", padding}, {"stride", stride}});
  at::native::im2col_shape_check(self, Tensor(), kernel[0], kernel[1], dilation[0], dilation[1],
                                 padding[0], padding[1], stride[0], stride[1]);
  expect_type(out, self.scalar_type(), "im2col");
  const bool batched = self.dim() == 4;
  const Tensor in = batched ? self : self.unsqueeze(0);
  const Windows w = windows_of(in.sizes().slice(2), kernel, dilation, padding, stride);
  const Tensor padded =
      at::constant_pad_nd(in, {padding[1], padding[1], padding[0], padding[0]}).contiguous();
  const int64_t row = padded.stride(2);
  const Tensor windows =
      padded.as_strided({in.size(0), in.size(1), kernel[0], kernel[1], w.windows[0], w.windows[1]},
                        {padded.stride(0), padded.stride(1), dilation[0] * row, dilation[1],
                         stride[0] * row, stride[1]});
  const std::array<int64_t, 3> sizes{in.size(0), in.size(1) * kernel[0] * kernel[1],
                                     w.windows[0] * w.windows[1]};
  const Tensor columns = windows.reshape(sizes);
  at::native::resize_output(out, batched ? columns.sizes() : columns.sizes().slice(1));
  return out.copy_(batched ? columns : columns.squeeze(0));
}

OCL_NATIVE("im2col", im2col);
OCL_COMPLEX("im2col");
Tensor im2col(const Tensor& self, IntArrayRef kernel, IntArrayRef dilation, IntArrayRef padding,
              IntArrayRef stride) {
  Tensor out = at::empty({0}, self.options());
  return im2col_out(self, kernel, dilation, padding, stride, out);
}

OCL_NATIVE("col2im.out", col2im_out);
OCL_COMPLEX("col2im.out");
Tensor& col2im_out(const Tensor& self, IntArrayRef size, IntArrayRef kernel, IntArrayRef dilation,
                   IntArrayRef padding, IntArrayRef stride, Tensor& out) {
  check_pairs({{"output_size", size},
               {"kernel_size", kernel},
               {"dilation", dilation},
               {"padding", padding},
               {"stride", stride}});
  at::native::col2im_shape_check(self, Tensor(), size[0], size[1], kernel[0], kernel[1],
                                 dilation[0], dilation[1], padding[0], padding[1], stride[0],
                                 stride[1]);
  const Windows w = windows_of(size, kernel, dilation, padding, stride);
  at::DimVector sizes(self.sizes().slice(0, self.dim() - 2));
  sizes.append({self.size(-2) / (kernel[0] * kernel[1]), size[0], size[1]});
  at::native::resize_output(out, sizes);
  const DenseOutput dense(out);
  sum_windows(self.contiguous(), dense.tensor(), w);
  dense.finish();
  return out;
}

OCL_NATIVE("col2im", col2im);
OCL_COMPLEX("col2im");
Tensor col2im(const Tensor& self, IntArrayRef size, IntArrayRef kernel, IntArrayRef dilation,
              IntArrayRef padding, IntArrayRef stride) {
  Tensor out = at::empty({0}, self.options());
  return col2im_out(self, size, kernel, dilation, padding, stride, out);
}

}  // namespace native
}  // namespace ocl

namespace at::native {

OCL_STUB("unfold_backward", unfold_backward_stub, &ocl::unfold_backward)
OCL_COMPLEX("unfold_backward");

}  // namespace at::native
