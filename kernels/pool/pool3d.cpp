// Maximum and average pooling of volumes, and their gradients.
#include "kernels/pool/pool3d.h"

#include <ATen/native/AdaptivePooling.h>
#include <ATen/native/Pool.h>
#include <ATen/ops/empty.h>

#include "kernels/core/algorithms/algorithms.h"
#include "kernels/core/grids/grid.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "native/pool3d.h"

namespace ocl {
namespace {

using at::IntArrayRef;
using at::Tensor;

struct PoolVolumes {
  const char* kernel;
  ScalarType type;
  PoolWindows windows;

  KernelSource source(Device& device) const {
    Defines defines = compute_defines(compute_type(type));
    define_grid(defines, device);
    defines.set("IN", dtype_name(type));
    if (windows == PoolWindows::kAdaptive) defines.set("ADAPTIVE", 1);
    if (windows == PoolWindows::kFractional) defines.set("FRACTIONAL", 1);
    return {"pool3d.cl", kernel, defines};
  }
};

UnitGrid grid_of(const Device& device, const Pool3& pool, const Triple& shape) {
  const auto cost = static_cast<size_t>(pool.extent[0] * pool.extent[1] * pool.extent[2]);
  return unit_grid(device, static_cast<size_t>(pool.planes * shape[0] * shape[1]),
                   static_cast<size_t>(shape[2]), std::max<size_t>(cost, 4));
}

constexpr size_t kLongWindow = 4096, kLeastPart = 256;

// The number of elements in the largest window.
size_t window_size(const Pool3& pool, PoolWindows windows) {
  size_t size = 1;
  for (size_t d = 0; d < 3; ++d) {
    size *= static_cast<size_t>(windows == PoolWindows::kAdaptive
                                    ? std::min(pool.in[d] / pool.out[d] + 1, pool.in[d])
                                    : std::min(pool.extent[d], pool.in[d]));
  }
  return size;
}

size_t outputs_of(const Pool3& pool) {
  return static_cast<size_t>(pool.planes * pool.out[0] * pool.out[1] * pool.out[2]);
}

// The number of parts of a window; 1: one work-item reads the whole window.
size_t parts_of(const Tensor& in, const Pool3& pool, PoolWindows windows) {
  if (!has_long_windows(in, pool, windows)) return 1;
  return parts_for(ocl_device(in), outputs_of(pool), window_size(pool, windows), kLeastPart,
                   /*serial=*/true);
}

Tensor for_parts(const Tensor& like, const Pool3& pool, size_t parts, ScalarType type) {
  return at::empty({static_cast<int64_t>(outputs_of(pool) * parts)}, like.options().dtype(type));
}

void enqueue_parts(Arguments& arguments, const Device& device, const Pool3& pool, size_t parts,
                   size_t inner, double work) {
  const UnitGrid grid = unit_grid(device, outputs_of(pool), inner);
  arguments.add(pool)
      .add(uint64_t{parts})
      .add(grid.per_item)
      .enqueue(grid.global, grid.local, work);
}

Pool3 make_windows(const Tensor& in, const Tensor& pooled, IntArrayRef kernel, IntArrayRef stride,
                   IntArrayRef padding, IntArrayRef dilation = {}) {
  Pool3 pool = make_pool3(in, pooled, 3);
  pool.extent = triple(kernel, {1, 1, 1});
  pool.stride = triple(stride, pool.extent);
  pool.pad = triple(padding, {0, 0, 0});
  pool.dilation = triple(dilation, {1, 1, 1});
  return pool;
}

at::MemoryFormat format_of(const Tensor& volume) {
  return volume.dim() == 5 ? volume.suggest_memory_format() : at::MemoryFormat::Contiguous;
}

// Whether a volume without a batch has its channels last; PyTorch has no memory format for it.
bool channels_last_volume(const Tensor& volume) {
  return volume.dim() == 4 && volume.numel() > 0 && !volume.is_contiguous() &&
         volume.permute({1, 2, 3, 0}).is_contiguous();
}

void check_list(const char* what, IntArrayRef values, bool may_be_empty = false) {
  TORCH_CHECK(values.size() == 1 || values.size() == 3 || (may_be_empty && values.empty()),
              "max_pool3d: ", what, " must be ", may_be_empty ? "omitted, " : "either ",
              "a single int, or a tuple of three ints");
}

// The shape of the pooled volume.
at::DimVector pooled_shape(const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                           IntArrayRef padding, IntArrayRef dilation, bool ceil_mode) {
  check_list("kernel_size", kernel);
  check_list("stride", stride, true);
  check_list("padding", padding);
  check_list("dilation", dilation);
  TORCH_CHECK(self.dim() == 4 || self.dim() == 5,
              "non-empty 4D or 5D (batch mode) tensor expected for input");
  const Triple k = triple(kernel, {}), s = triple(stride, k), p = triple(padding, {}),
               d = triple(dilation, {});
  const auto n = [](int64_t value) { return at::native::safe_downcast<int, int64_t>(value); };
  for (const Triple* each : {&k, &s, &p, &d}) std::for_each(each->begin(), each->end(), n);
  at::DimVector shape(self.sizes());
  const int64_t first = self.dim() - 3;
  for (int64_t i = 0; i < 3; ++i) {
    shape[first + i] = at::native::pooling_output_shape<int64_t>(self.size(first + i), k[i], p[i],
                                                                 s[i], d[i], ceil_mode);
  }
  at::native::pool3d_shape_check(self, self.size(-4), n(k[0]), n(k[1]), n(k[2]), n(s[0]), n(s[1]),
                                 n(s[2]), n(p[0]), n(p[1]), n(p[2]), n(d[0]), n(d[1]), n(d[2]),
                                 self.size(-3), self.size(-2), self.size(-1), shape[first],
                                 shape[first + 1], shape[first + 2], "max_pool3d_with_indices()");
  return shape;
}

void check_adaptive(const Tensor& image) {
  for (int64_t d = 1; d < image.dim(); ++d) {
    TORCH_CHECK(image.size(d) > 0,
                "adaptive_avg_pool3d(): Expected input to have non-zero size for non-batch "
                "dimensions, but input has sizes ",
                image.sizes(), " with dimension ", d, " being empty");
  }
  TORCH_CHECK(image.dim() == 4 || image.dim() == 5,
              "adaptive_avg_pool3d(): Expected 4D or 5D tensor, but got ", image.sizes());
}

}  // namespace

Pool3 make_pool3(const Tensor& in, const Tensor& pooled, int64_t dims) {
  Pool3 pool{};
  pool.planes = 1;
  pool.in = pool.out = pool.extent = pool.stride = pool.dilation = {1, 1, 1};
  for (int64_t d = 0; d < in.dim() - dims; ++d) pool.planes *= in.size(d);
  for (int64_t d = 1; d <= dims; ++d) {
    pool.in[3 - d] = in.size(-d);
    pool.out[3 - d] = pooled.size(-d);
  }
  return pool;
}

Triple triple(IntArrayRef values, Triple other) {
  if (values.empty()) return other;
  if (values.size() == 1) return {values[0], values[0], values[0]};
  return {values[0], values[1], values[2]};
}

bool has_long_windows(const Tensor& in, const Pool3& pool, PoolWindows windows) {
  return ocl_device(in).family() == KernelFamily::kGpu && window_size(pool, windows) > kLongWindow;
}

double work_of(const Pool3& pool, PoolWindows windows) {
  return kPlainCost * static_cast<double>(outputs_of(pool)) *
         static_cast<double>(window_size(pool, windows));
}

void avg_pool3(const char* op, const Tensor& from, const Tensor& to, const Pool3& pool,
               PoolWindows windows, bool backward) {
  if (to.numel() == 0) return;
  Device& device = ocl_device(to);
  const ScalarType type = to.scalar_type();
  check_device_has(device, type, op);
  expect_type(from, type, op);
  const Tensor in = from.contiguous();
  const DenseOutput out(to);
  const auto begin = [&](const char* kernel) {
    return Arguments(stream_of(in), find_kernel(device, PoolVolumes{kernel, type, windows}));
  };
  const double work = work_of(pool, windows);
  const size_t parts = backward ? 1 : parts_of(in, pool, windows);
  if (parts > 1) {
    const Tensor sums = for_parts(in, pool, parts, compute_type(type));
    Arguments walk = begin("avg_pool3d_parts");
    enqueue_parts(walk.add(view(in)).add(view(sums)), device, pool, parts, parts, work);
    Arguments join = begin("avg_pool3d_join");
    enqueue_parts(join.add(view(sums)).add(view(out.tensor())), device, pool, parts, 1, 0);
  } else {
    const UnitGrid grid = grid_of(device, pool, backward ? pool.in : pool.out);
    Arguments arguments = begin(backward ? "avg_pool3d_backward" : "avg_pool3d");
    arguments.add(view(in)).add(view(out.tensor())).add(pool).add(grid.per_item);
    arguments.enqueue(grid.global, grid.local, work);
  }
  out.finish();
}

void max_pool3_forward(const char* op, const Tensor& in_any, const Pool3& pool, PoolWindows windows,
                       const Tensor& out, const Tensor& indices, const Tensor& random) {
  if (out.numel() == 0) return;
  Device& device = ocl_device(in_any);
  const ScalarType type = in_any.scalar_type();
  check_device_has(device, type, op);
  const Tensor in = in_any.contiguous(), samples = dense(random);
  const DenseOutput most(out), places(indices);
  const auto begin = [&](const char* kernel) {
    return Arguments(stream_of(in), find_kernel(device, PoolVolumes{kernel, type, windows}));
  };
  const double work = work_of(pool, windows);
  const size_t parts = parts_of(in, pool, windows);
  Arguments walk = begin(parts > 1 ? "max_pool3d_parts" : "max_pool3d");
  walk.add(view(in));
  if (samples.defined()) walk.add(view(samples));
  if (parts > 1) {
    const Tensor values = for_parts(in, pool, parts, compute_type(type)),
                 found = for_parts(in, pool, parts, ScalarType::Long);
    enqueue_parts(walk.add(view(values)).add(view(found)), device, pool, parts, parts, work);
    Arguments join = begin("max_pool3d_join");
    join.add(view(values)).add(view(found)).add(view(most.tensor())).add(view(places.tensor()));
    enqueue_parts(join, device, pool, parts, 1, 0);
  } else {
    const UnitGrid grid = grid_of(device, pool, pool.out);
    walk.add(view(most.tensor())).add(view(places.tensor())).add(pool).add(grid.per_item);
    walk.enqueue(grid.global, grid.local, work);
  }
  most.finish();
  places.finish();
}

void max_pool3_backward(const Tensor& grad, const Tensor& indices, const Tensor& grad_input,
                        int64_t dims) {
  if (grad_input.numel() == 0) return;
  expect_type(grad, grad_input.scalar_type(), "max_pool_backward");
  expect_type(indices, ScalarType::Long, "max_pool_backward");
  int64_t planes = 1;
  for (int64_t d = 0; d < grad_input.dim() - dims; ++d) planes *= grad_input.size(d);
  const DenseOutput out(grad_input);
  out.tensor()
      .zero_()
      .view({planes, -1})
      .scatter_add_(1, indices.reshape({planes, -1}), grad.reshape({planes, -1}));
  out.finish();
}

namespace native {

OCL_NATIVE("max_pool3d_with_indices.out", max_pool3d_with_indices_out);
std::tuple<Tensor&, Tensor&> max_pool3d_with_indices_out(const Tensor& self,
                                                         IntArrayRef kernel_size,
                                                         IntArrayRef stride, IntArrayRef padding,
                                                         IntArrayRef dilation, bool ceil_mode,
                                                         Tensor& out, Tensor& indices) {
  const at::DimVector shape = pooled_shape(self, kernel_size, stride, padding, dilation, ceil_mode);
  out.resize_(shape, format_of(self));
  indices.resize_(shape, format_of(self));
  max_pool3_forward("max_pool3d_with_indices", self,
                    make_windows(self, out, kernel_size, stride, padding, dilation),
                    PoolWindows::kFixed, out, indices);
  return {out, indices};
}

OCL_NATIVE("max_pool3d_with_indices", max_pool3d_with_indices);
std::tuple<Tensor, Tensor> max_pool3d_with_indices(const Tensor& self, IntArrayRef kernel_size,
                                                   IntArrayRef stride, IntArrayRef padding,
                                                   IntArrayRef dilation, bool ceil_mode) {
  if (channels_last_volume(self)) {
    const Tensor batch = self.as_strided(
        {1, self.size(0), self.size(1), self.size(2), self.size(3)},
        {self.numel(), self.stride(0), self.stride(1), self.stride(2), self.stride(3)});
    const auto [out, indices] =
        max_pool3d_with_indices(batch, kernel_size, stride, padding, dilation, ceil_mode);
    return {out.squeeze(0), indices.squeeze(0)};
  }
  Tensor out = at::empty({0}, self.options()),
         indices = at::empty({0}, self.options().dtype(at::kLong));
  max_pool3d_with_indices_out(self, kernel_size, stride, padding, dilation, ceil_mode, out,
                              indices);
  return {out, indices};
}

OCL_NATIVE("max_pool3d_with_indices_backward.grad_input", max_pool3d_with_indices_backward_out);
Tensor& max_pool3d_with_indices_backward_out(const Tensor& grad_output, const Tensor& self,
                                             IntArrayRef kernel_size, IntArrayRef stride,
                                             IntArrayRef padding, IntArrayRef dilation,
                                             bool ceil_mode, const Tensor& indices,
                                             Tensor& grad_input) {
  const at::DimVector shape = pooled_shape(self, kernel_size, stride, padding, dilation, ceil_mode);
  TORCH_CHECK(grad_output.sizes() == shape && indices.sizes() == shape,
              "max_pool3d_with_indices_backward(): expected a gradient and indices of sizes ",
              IntArrayRef(shape), ", but got ", grad_output.sizes(), " and ", indices.sizes());
  grad_input.resize_(self.sizes(), format_of(self));
  max_pool3_backward(grad_output, indices, grad_input, 3);
  return grad_input;
}

OCL_NATIVE("max_pool3d_with_indices_backward", max_pool3d_with_indices_backward);
Tensor max_pool3d_with_indices_backward(const Tensor& grad_output, const Tensor& self,
                                        IntArrayRef kernel_size, IntArrayRef stride,
                                        IntArrayRef padding, IntArrayRef dilation, bool ceil_mode,
                                        const Tensor& indices) {
  Tensor grad_input = at::empty({0}, self.options());
  return max_pool3d_with_indices_backward_out(grad_output, self, kernel_size, stride, padding,
                                              dilation, ceil_mode, indices, grad_input);
}

OCL_STRUCTURED("adaptive_max_pool3d.out", adaptive_max_pool3d)
(const Tensor& self, IntArrayRef /*output_size*/, const Tensor& out, const Tensor& indices) {
  check_floating(ocl_device(self), self.scalar_type(), "adaptive_max_pool3d");
  max_pool3_forward("adaptive_max_pool3d", self, make_pool3(self, out, 3), PoolWindows::kAdaptive,
                    out, indices);
}

OCL_STRUCTURED_AS("adaptive_max_pool3d_backward.grad_input", adaptive_max_pool3d_backward,
                  max_pool3_backward(grad_output, indices, grad_input, 3))

OCL_STRUCTURED("avg_pool3d.out", avg_pool3d)
(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding,
 bool /*ceil_mode*/, bool count_include_pad, std::optional<int64_t> divisor_override,
 const Tensor& out) {
  Pool3 pool = make_windows(self, out, kernel_size, stride, padding);
  pool.divisor = divisor_override.value_or(0);
  pool.count_padding = count_include_pad;
  avg_pool3("avg_pool3d", self, out, pool, PoolWindows::kFixed, false);
}

OCL_STRUCTURED("avg_pool3d_backward.grad_input", avg_pool3d_backward)
(const Tensor& grad_output, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
 IntArrayRef padding, bool /*ceil_mode*/, bool count_include_pad,
 std::optional<int64_t> divisor_override, const Tensor& grad_input) {
  Pool3 pool = make_windows(self, grad_output, kernel_size, stride, padding);
  pool.divisor = divisor_override.value_or(0);
  pool.count_padding = count_include_pad;
  avg_pool3("avg_pool3d_backward", grad_output, grad_input, pool, PoolWindows::kFixed, true);
}

OCL_NATIVE("adaptive_avg_pool3d.out", adaptive_avg_pool3d_out);
Tensor& adaptive_avg_pool3d_out(const Tensor& self, IntArrayRef output_size, Tensor& out) {
  TORCH_CHECK(output_size.size() == 3, "adaptive_avg_pool3d: output_size must be 3");
  check_adaptive(self);
  check_floating(ocl_device(self), self.scalar_type(), "adaptive_avg_pool3d");
  TORCH_CHECK(self.dtype() == out.dtype(), "expected dtype ", self.dtype(),
              " for `output` but got dtype ", out.dtype());
  at::DimVector sizes(self.sizes());
  for (int64_t d = 0; d < 3; ++d) sizes[self.dim() - 3 + d] = output_size[d];
  out.resize_(sizes);
  avg_pool3("adaptive_avg_pool3d", self, out, make_pool3(self, out, 3), PoolWindows::kAdaptive,
            false);
  return out;
}

OCL_NATIVE("_adaptive_avg_pool3d", adaptive_avg_pool3d);
Tensor adaptive_avg_pool3d(const Tensor& self, IntArrayRef output_size) {
  Tensor out = at::empty({0}, self.options());
  return adaptive_avg_pool3d_out(self, output_size, out);
}

OCL_NATIVE("adaptive_avg_pool3d_backward.grad_input", adaptive_avg_pool3d_backward_out);
Tensor& adaptive_avg_pool3d_backward_out(const Tensor& grad_output, const Tensor& self,
                                         Tensor& grad_input) {
  at::native::adaptive_pool_empty_output_check(grad_output, "adaptive_avg_pool3d_backward");
  TORCH_CHECK(grad_output.dim() == 4 || grad_output.dim() == 5,
              "adaptive_avg_pool3d_backward(): Expected 4D or 5D tensor, but got ",
              grad_output.sizes());
  TORCH_CHECK(self.dtype() == grad_output.dtype(), "expected dtype ", self.dtype(),
              " for `grad_output` but got dtype ", grad_output.dtype());
  grad_input.resize_as_(self);
  avg_pool3("adaptive_avg_pool3d_backward", grad_output, grad_input,
            make_pool3(self, grad_output, 3), PoolWindows::kAdaptive, true);
  return grad_input;
}

OCL_NATIVE("_adaptive_avg_pool3d_backward", adaptive_avg_pool3d_backward);
Tensor adaptive_avg_pool3d_backward(const Tensor& grad_output, const Tensor& self) {
  Tensor grad_input = at::empty({0}, self.options());
  return adaptive_avg_pool3d_backward_out(grad_output, self, grad_input);
}

}  // namespace native
}  // namespace ocl
