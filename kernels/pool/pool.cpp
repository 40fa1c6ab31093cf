// Maximum and average pooling of images, contiguous or channels_last, and their gradients.
#include <ATen/native/AdaptivePooling.h>
#include <ATen/native/Pool.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <array>
#include <bit>

#include "kernels/core/grids/grid.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/pool/pool3d.h"
#include "native/pool.h"

namespace ocl {
namespace {

// Mirrors Pool of pool.clh, where that is not SMALL.
struct Pool {
  int64_t planes, channels, in_h, in_w, out_h, out_w;
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0,
          dilation_h = 1, dilation_w = 1;
  int64_t divisor = 0, count_padding = 0;
};

bool channels_last(const at::Tensor& tensor) {
  return tensor.dim() == 4 && tensor.size(1) > 1 &&
         tensor.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
}

// The pooling from an image `in` (C, H, W or N, C, H, W) to `pooled`, which has the layout of `in`.
Pool make_pool(const at::Tensor& in, const at::Tensor& pooled) {
  const int64_t batch = in.dim() == 4 ? in.size(0) : 1, channels = in.size(-3);
  const bool last = channels_last(in);
  return {last ? batch : batch * channels,
          last ? channels : 1,
          in.size(-2),
          in.size(-1),
          pooled.size(-2),
          pooled.size(-1)};
}

// The same pooling of volumes of depth 1.
Pool3 as_volumes(const at::Tensor& in, const at::Tensor& pooled, const Pool& pool) {
  Pool3 volumes = make_pool3(in, pooled, 2);
  volumes.kernel = {1, pool.kernel_h, pool.kernel_w};
  volumes.stride = {1, pool.stride_h, pool.stride_w};
  volumes.pad = {0, pool.pad_h, pool.pad_w};
  volumes.dilation = {1, pool.dilation_h, pool.dilation_w};
  volumes.divisor = pool.divisor;
  volumes.count_padding = pool.count_padding;
  return volumes;
}

PoolWindows kind_of(bool adaptive) {
  return adaptive ? PoolWindows::kAdaptive : PoolWindows::kFixed;
}

// SMALL of pool.clh, for GPUs.
bool is_small(const Device& device, const Pool& pool) {
  if (device.family() != KernelFamily::kGpu) return false;
  constexpr int64_t kMost = INT32_MAX / 4;
  const auto below = [&](int64_t a, int64_t b) { return a == 0 || b <= kMost / a; };
  const int64_t images = pool.planes * pool.channels;
  const auto fits = [&](int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t pad,
                        int64_t dilation) {
    return below(in + 1, out + 1) && below(kernel, dilation) && stride <= kMost && pad <= kMost;
  };
  return below(pool.kernel_h, pool.kernel_w) &&
         pool.divisor == static_cast<int32_t>(pool.divisor) && below(pool.in_h, pool.in_w) &&
         below(images, pool.in_h * pool.in_w) && below(pool.out_h, pool.out_w) &&
         below(images, pool.out_h * pool.out_w) &&
         fits(pool.in_h, pool.out_h, pool.kernel_h, pool.stride_h, pool.pad_h, pool.dilation_h) &&
         fits(pool.in_w, pool.out_w, pool.kernel_w, pool.stride_w, pool.pad_w, pool.dilation_w);
}

void add_pool(Arguments& arguments, const Pool& pool, bool small) {
  if (!small) {
    arguments.add(pool);
    return;
  }
  const auto numbers = std::bit_cast<std::array<int64_t, sizeof(Pool) / sizeof(int64_t)>>(pool);
  std::array<int32_t, numbers.size()> narrow;
  std::ranges::transform(numbers, narrow.begin(),
                         [](int64_t n) { return static_cast<int32_t>(n); });
  arguments.add_bytes(narrow.data(), sizeof narrow);
}

constexpr int kAnyHop = 3;
// Elements of a row in avg_pool_cpu.cl; four rows fill the least local memory. A row needs kMargin
// elements more than the image's width and twice the window's.
constexpr int64_t kRoom = 2048, kMargin = 32;

bool fits_rows(const Pool& pool) {
  const int64_t longest = std::max({pool.in_h, pool.in_w, pool.out_h, pool.out_w});
  return longest + 2 * pool.kernel_w + kMargin <= kRoom;
}

// HOP of pool.clh for kernels of CPU devices with vectors; 0 where there are none.
int hop_of(const Device& device, const at::Tensor& image, const Pool& pool, bool adaptive) {
  if (device.family() != KernelFamily::kCpu || device.parameters().vector_width == 1 ||
      compute_type(image.scalar_type()) != ScalarType::Float || pool.in_h * pool.in_w > INT32_MAX) {
    return 0;
  }
  return channels_last(image) || adaptive || pool.stride_w > 2 ? kAnyHop
                                                               : static_cast<int>(pool.stride_w);
}

struct PoolImages {
  const char *file, *name;
  ScalarType type;
  bool last, adaptive;
  int hop;  // HOP of pool.clh; 0: the kernel has no vectors
  bool small;
  int64_t stride;        // STRIDE of pool.clh; 0: not known when the kernel is compiled
  bool forward = false;  // FORWARD of max_pool.cl

  KernelSource source(Device& device) const {
    Defines defines = compute_defines(compute_type(type));
    define_grid(defines, device);
    defines.set("IN", dtype_name(type));
    if (last) defines.set("CHANNELS_LAST", 1);
    if (adaptive) defines.set("ADAPTIVE", 1);
    if (small) defines.set("SMALL", 1);
    if (stride != 0) defines.set("STRIDE", stride);
    if (hop != 0) {
      defines.set("WIDTH", static_cast<int64_t>(device.parameters().vector_width))
          .set("HOP", hop)
          .set("ROOM", kRoom);
    }
    if (forward) defines.set("FORWARD", 1);
    return {file, name, defines};
  }
};

// STRIDE of pool.clh, for gradients on GPUs: that of nearly all networks.
int64_t known_stride(const Device& device, const Pool& pool) {
  constexpr int64_t kMost = 4;
  const bool known = device.family() == KernelFamily::kGpu && pool.stride_h == pool.stride_w &&
                     pool.stride_h <= kMost;
  return known ? pool.stride_h : 0;
}

UnitGrid grid_of(const Device& device, const Pool& pool, int64_t h, int64_t w, size_t cost) {
  const bool last = pool.channels > 1;
  return unit_grid(device, static_cast<size_t>(last ? pool.planes * h * w : pool.planes * h),
                   static_cast<size_t>(last ? pool.channels : w), cost);
}

// A grid whose units are rows of a channels_last image.
UnitGrid grid_of_rows(const Device& device, const Pool& pool) {
  return unit_grid(device, static_cast<size_t>(pool.planes * pool.in_h),
                   static_cast<size_t>(pool.in_w), static_cast<size_t>(pool.channels));
}

// A tensor in the given format for a kernel to write: the tensor itself if it has that format.
at::Tensor target_in(const at::Tensor& tensor, at::MemoryFormat format) {
  return tensor.is_contiguous(format) ? tensor : at::empty_like(tensor, format);
}

void give(const at::Tensor& result, const at::Tensor& computed) {
  if (!computed.is_same(result)) result.copy_(computed);
}

at::MemoryFormat format_of(const at::Tensor& in) {
  return channels_last(in) ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

void max_forward(const at::Tensor& self, Pool pool, const at::Tensor& out_any,
                 const at::Tensor& indices_any, bool adaptive = false) {
  if (out_any.numel() == 0) return;
  Device& device = ocl_device(self);
  check_device_has(device, self.scalar_type(), "max_pool2d");
  const Pool3 volumes = as_volumes(self, out_any, pool);
  const PoolWindows windows = kind_of(adaptive);
  if (has_long_windows(self, volumes, windows)) {
    return max_pool3_forward("max_pool2d", self, volumes, windows, out_any, indices_any);
  }
  const at::MemoryFormat format = format_of(self);
  const at::Tensor in = self.contiguous(format), out = target_in(out_any, format),
                   indices = target_in(indices_any, format);
  const bool last = channels_last(self);
  int hop = hop_of(device, self, pool, adaptive);
  if (hop == kAnyHop && !last && !fits_rows(pool)) hop = 0;
  const bool small = is_small(device, pool);
  const Kernel& kernel =
      find_kernel(device, PoolImages{hop != 0 ? "max_pool_cpu.cl" : "max_pool.cl", "max_pool",
                                     self.scalar_type(), last, adaptive, hop, small, /*stride=*/0,
                                     /*forward=*/true});
  const UnitGrid grid = grid_of(device, pool, pool.out_h, pool.out_w,
                                static_cast<size_t>(pool.kernel_h * pool.kernel_w));
  Arguments arguments(stream_of(in), kernel);
  arguments.add(view(in)).add(view(out)).add(view(indices));
  add_pool(arguments, pool, small);
  arguments.add(grid.per_item).enqueue(grid.global, grid.local, work_of(volumes, windows));
  give(out_any, out);
  give(indices_any, indices);
}

void max_backward(const at::Tensor& grad_any, const at::Tensor& self, Pool pool,
                  const at::Tensor& indices_any, const at::Tensor& grad_input,
                  bool adaptive = false) {
  if (grad_input.numel() == 0) return;
  Device& device = ocl_device(self);
  check_device_has(device, self.scalar_type(), "max_pool2d_backward");
  expect_type(grad_any, self.scalar_type(), "max_pool2d_backward");
  expect_type(indices_any, ScalarType::Long, "max_pool2d_backward");
  const at::MemoryFormat format = format_of(self);
  const at::Tensor grad = grad_any.contiguous(format), indices = indices_any.contiguous(format),
                   out = target_in(grad_input, format);
  static constexpr const char *kScatter = "max_pool_scatter", *kGather = "max_pool_gather";
  const bool last = channels_last(self), cpu = device.family() == KernelFamily::kCpu;
  // A gather costs time for each element of the image, a scatter only for each pooled element.
  const bool asks = last && pool.in_h * pool.in_w < 16 * pool.out_h * pool.out_w;
  const int hop = asks ? hop_of(device, self, pool, adaptive) : 0;
  const bool small = is_small(device, pool);
  const Kernel& kernel =
      find_kernel(device, PoolImages{hop != 0 ? "max_pool_cpu.cl" : "max_pool.cl",
                                     cpu && hop == 0 ? kScatter : kGather, self.scalar_type(), last,
                                     adaptive, hop, small, known_stride(device, pool)});
  UnitGrid grid = grid_of(device, pool, pool.in_h, pool.in_w, 2);
  if (hop != 0) {
    grid = grid_of_rows(device, pool);
  } else if (cpu) {
    const size_t units = static_cast<size_t>(pool.planes * ((pool.channels + 31) / 32));
    grid = unit_grid(device, units, static_cast<size_t>(self.numel()) / units, 2);
    grid.global.x = 1;
  }
  Arguments arguments(stream_of(grad), kernel);
  arguments.add(view(grad)).add(view(indices)).add(view(out));
  add_pool(arguments, pool, small);
  arguments.add(grid.per_item).enqueue(grid.global, grid.local);
  give(grad_input, out);
}

// The forward pass, or the image's gradient from the pooled image's gradient.
void average(const at::Tensor& from_any, const at::Tensor& to_any, const at::Tensor& image,
             const Pool& pool, bool adaptive, bool backward) {
  if (to_any.numel() == 0) return;
  Device& device = ocl_device(image);
  check_device_has(device, image.scalar_type(), "avg_pool2d");
  expect_type(from_any, to_any.scalar_type(), "avg_pool2d");
  const Pool3 volumes = as_volumes(image, backward ? from_any : to_any, pool);
  const PoolWindows windows = kind_of(adaptive);
  if (!backward && has_long_windows(image, volumes, windows)) {
    return avg_pool3("avg_pool2d", from_any, to_any, volumes, windows, false);
  }
  static constexpr const char *kForward = "avg_pool", *kBackward = "avg_pool_backward";
  const at::MemoryFormat format = format_of(image);
  const at::Tensor from = from_any.contiguous(format), to = target_in(to_any, format);
  const bool last = channels_last(image);
  int hop = hop_of(device, image, pool, adaptive);
  if (!fits_rows(pool) && (backward || (hop == kAnyHop && !last))) hop = 0;
  const bool small = is_small(device, pool);
  const Kernel& kernel = find_kernel(
      device, PoolImages{hop != 0 ? "avg_pool_cpu.cl" : "avg_pool.cl",
                         backward ? kBackward : kForward, image.scalar_type(), last, adaptive, hop,
                         small, backward ? known_stride(device, pool) : 0});
  const size_t cost = adaptive ? 4 : static_cast<size_t>(pool.kernel_h * pool.kernel_w);
  UnitGrid grid = grid_of(device, pool, backward ? pool.in_h : pool.out_h,
                          backward ? pool.in_w : pool.out_w, cost);
  if (hop != 0 && backward && last) grid = grid_of_rows(device, pool);
  Arguments arguments(stream_of(from), kernel);
  arguments.add(view(from)).add(view(to));
  add_pool(arguments, pool, small);
  arguments.add(grid.per_item).enqueue(grid.global, grid.local, work_of(volumes, windows));
  give(to_any, to);
}

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
  max_forward(self,
              make_windows(self, out, kernel, pair(stride, kernel), pair(padding, {0, 0}),
                           pair(dilation, {1, 1})),
              out, indices);
}

OCL_STRUCTURED("max_pool2d_with_indices_backward.grad_input", max_pool2d_backward)
(const Tensor& grad_output, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
 IntArrayRef padding, IntArrayRef dilation, bool /*ceil_mode*/, const Tensor& indices,
 const Tensor& grad_input) {
  const auto kernel = pair(kernel_size, {1, 1});
  max_backward(grad_output, self,
               make_windows(self, grad_output, kernel, pair(stride, kernel), pair(padding, {0, 0}),
                            pair(dilation, {1, 1})),
               indices, grad_input);
}

OCL_STRUCTURED("avg_pool2d.out", avg_pool2d)
(const Tensor& self, int64_t kernel_h, int64_t kernel_w, int64_t stride_h, int64_t stride_w,
 int64_t pad_h, int64_t pad_w, bool /*ceil_mode*/, bool count_include_pad,
 std::optional<int64_t> divisor_override, const Tensor& out) {
  Pool pool = make_windows(self, out, {kernel_h, kernel_w}, {stride_h, stride_w}, {pad_h, pad_w});
  pool.divisor = divisor_override.value_or(0);
  pool.count_padding = count_include_pad;
  average(self, out, self, pool, false, false);
}

OCL_STRUCTURED("avg_pool2d_backward.grad_input", avg_pool2d_backward)
(const Tensor& grad_output, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
 IntArrayRef padding, bool /*ceil_mode*/, bool count_include_pad,
 std::optional<int64_t> divisor_override, const Tensor& grad_input) {
  const auto kernel = pair(kernel_size, {1, 1});
  Pool pool = make_windows(self, grad_output, kernel, pair(stride, kernel), pair(padding, {0, 0}));
  pool.divisor = divisor_override.value_or(0);
  pool.count_padding = count_include_pad;
  average(grad_output, grad_input, self, pool, false, true);
}

OCL_STRUCTURED("adaptive_max_pool2d.out", adaptive_max_pool2d)
(const Tensor& self, IntArrayRef /*output_size*/, const Tensor& out, const Tensor& indices) {
  check_floating(ocl_device(self), self.scalar_type(), "adaptive_max_pool2d");
  max_forward(self, make_pool(self, out), out, indices, true);
}

OCL_STRUCTURED_AS("adaptive_max_pool2d_backward.grad_input", adaptive_max_pool2d_backward,
                  max_backward(grad_output, self, make_pool(self, grad_output), indices, grad_input,
                               true))

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
  average(self, out, self, make_pool(self, out), true, false);
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
  average(grad_output, grad_input, self, make_pool(self, grad_output), true, true);
  return grad_input;
}

}  // namespace native
}  // namespace ocl
