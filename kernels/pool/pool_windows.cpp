// The kernels for pooling of images (pool.clh), and the choice among them.
#include "kernels/pool/pool.h"

#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <array>
#include <bit>

#include "kernels/core/algorithms/algorithms.h"
#include "kernels/core/grids/grid.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/pool/pool3d.h"

namespace ocl {
namespace {

bool channels_last(const at::Tensor& tensor) {
  return tensor.dim() == 4 && tensor.size(1) > 1 &&
         tensor.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
}

// The same pooling of volumes of depth 1.
Pool3 as_volumes(const at::Tensor& in, const at::Tensor& pooled, const Pool& pool) {
  Pool3 volumes = make_pool3(in, pooled, 2);
  volumes.extent = {1, pool.kernel_h, pool.kernel_w};
  volumes.stride = {1, pool.stride_h, pool.stride_w};
  volumes.pad = {0, pool.pad_h, pool.pad_w};
  volumes.dilation = {1, pool.dilation_h, pool.dilation_w};
  volumes.divisor = pool.divisor;
  volumes.count_padding = pool.count_padding;
  return volumes;
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
constexpr const char* kNoVectors = "kernels of CPU devices for vectors of floats";
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

// STRIDE of pool.clh, for gradients on GPUs; 0 for unusual strides.
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

// A pass over windows: it reads `from` and writes `to`, and maximum pooling also writes `indices`.
struct PoolCall {
  const char* op;
  const at::Tensor &from, &to;
  const at::Tensor& indices;  // not defined for averages
  Pool pool;
  bool adaptive, backward;
  Pool3 volumes = as_volumes(image(), backward ? from : to, pool);

  const at::Tensor& image() const { return backward ? to : from; }
  PoolWindows windows() const { return adaptive ? PoolWindows::kAdaptive : PoolWindows::kFixed; }
};

std::string describe(const PoolCall& call) {
  return c10::str(call.op, call.backward ? "_backward" : "", " of ", call.image().sizes(), " to ",
                  call.volumes.out[1], "x", call.volumes.out[2]);
}

const char* refusal_of_long_windows(const PoolCall& call) {
  if (call.backward) return "for forward passes only";
  return has_long_windows(call.from, call.volumes, call.windows())
             ? nullptr
             : "a work-item can read a whole window";
}

void run_long_windows(const PoolCall& call) {
  if (call.indices.defined()) {
    return max_pool3_forward(call.op, call.from, call.volumes, call.windows(), call.to,
                             call.indices);
  }
  avg_pool3(call.op, call.from, call.to, call.volumes, call.windows(), /*backward=*/false);
}

int hop_of(const PoolCall& call) {
  return hop_of(ocl_device(call.image()), call.image(), call.pool, call.adaptive);
}

const char* refusal_of_vectors(const PoolCall& call) {
  const int hop = hop_of(call);
  if (hop == 0) return kNoVectors;
  const bool has_rows = call.backward || (hop == kAnyHop && !channels_last(call.image()));
  return has_rows && !fits_rows(call.pool) ? "local memory does not hold a row" : nullptr;
}

// `hop`: HOP of pool.clh.
void run_windows(const PoolCall& call, int hop) {
  const Pool& pool = call.pool;
  const at::Tensor& image = call.image();
  Device& device = ocl_device(image);
  const bool maximum = call.indices.defined(), last = channels_last(image),
             small = is_small(device, pool);
  const at::MemoryFormat format = format_of(image);
  const at::Tensor from = call.from.contiguous(format), to = target_in(call.to, format);
  const char* const file = maximum    ? hop != 0 ? "max_pool_cpu.cl" : "max_pool.cl"
                           : hop != 0 ? "avg_pool_cpu.cl"
                                      : "avg_pool.cl";
  const char* const name = maximum ? "max_pool" : call.backward ? "avg_pool_backward" : "avg_pool";
  const Kernel& kernel = find_kernel(
      device, PoolImages{file, name, image.scalar_type(), last, call.adaptive, hop, small,
                         call.backward ? known_stride(device, pool) : 0, /*forward=*/maximum});
  const size_t cost =
      call.adaptive && !maximum ? 4 : static_cast<size_t>(pool.kernel_h * pool.kernel_w);
  UnitGrid grid = grid_of(device, pool, call.backward ? pool.in_h : pool.out_h,
                          call.backward ? pool.in_w : pool.out_w, cost);
  if (hop != 0 && call.backward && last) grid = grid_of_rows(device, pool);
  Arguments arguments(stream_of(from), kernel);
  arguments.add(view(from)).add(view(to));
  at::Tensor indices;
  if (maximum) {
    indices = target_in(call.indices, format);
    arguments.add(view(indices));
  }
  add_pool(arguments, pool, small);
  arguments.add(grid.per_item)
      .enqueue(grid.global, grid.local, work_of(call.volumes, call.windows()));
  give(call.to, to);
  if (maximum) give(call.indices, indices);
}

void run_vectors(const PoolCall& call) { run_windows(call, hop_of(call)); }

void run_plain(const PoolCall& call) { run_windows(call, 0); }

constexpr Algorithm<PoolCall> kWindows[] = {
    {"pool_long_windows", refusal_of_long_windows, run_long_windows},
    {"pool_vectors", refusal_of_vectors, run_vectors},
    {"pool", nullptr, run_plain},
};

void run_pool(const PoolCall& call) {
  if (call.to.numel() == 0) return;
  check_device_has(ocl_device(call.from), call.image().scalar_type(), call.op);
  expect_type(call.from, call.to.scalar_type(), call.op);
  run_first(kWindows, call);
}

// The gradient of maximum pooling: adds each gradient to the element that was the maximum.
struct MaxBackward {
  const at::Tensor &grad, &indices, &grad_input;
  const Pool& pool;
  bool adaptive;
};

std::string describe(const MaxBackward& call) {
  return c10::str("max_pool2d_backward of ", call.grad_input.sizes());
}

void run_max_backward(const MaxBackward& call, const char* name, int hop, const UnitGrid& grid) {
  Device& device = ocl_device(call.grad);
  const at::MemoryFormat format = format_of(call.grad_input);
  const at::Tensor grad = call.grad.contiguous(format), indices = call.indices.contiguous(format),
                   out = target_in(call.grad_input, format);
  const bool small = is_small(device, call.pool);
  const Kernel& kernel =
      find_kernel(device, PoolImages{hop != 0 ? "max_pool_cpu.cl" : "max_pool.cl", name,
                                     out.scalar_type(), channels_last(call.grad_input),
                                     call.adaptive, hop, small, known_stride(device, call.pool)});
  Arguments arguments(stream_of(grad), kernel);
  arguments.add(view(grad)).add(view(indices)).add(view(out));
  add_pool(arguments, call.pool, small);
  arguments.add(grid.per_item).enqueue(grid.global, grid.local);
  give(call.grad_input, out);
}

int hop_of(const MaxBackward& call) {
  return hop_of(ocl_device(call.grad), call.grad_input, call.pool, call.adaptive);
}

const char* refusal_of_gather_vectors(const MaxBackward& call) {
  const Pool& pool = call.pool;
  if (hop_of(call) == 0) return kNoVectors;
  if (!channels_last(call.grad_input)) return "the lanes are channels";
  // A gather costs time for each element of the image, a scatter only for each pooled element.
  return pool.in_h * pool.in_w < 16 * pool.out_h * pool.out_w ? nullptr : "few pooled elements";
}

void gather_vectors(const MaxBackward& call) {
  run_max_backward(call, "max_pool_gather", hop_of(call),
                   grid_of_rows(ocl_device(call.grad), call.pool));
}

const char* refusal_of_scatter(const MaxBackward& call) {
  return ocl_device(call.grad).family() == KernelFamily::kCpu ? nullptr
                                                              : "a work-item for each plane";
}

void scatter(const MaxBackward& call) {
  const Pool& pool = call.pool;
  const size_t units = static_cast<size_t>(pool.planes * ((pool.channels + 31) / 32));
  UnitGrid grid = unit_grid(ocl_device(call.grad), units,
                            static_cast<size_t>(call.grad_input.numel()) / units, 2);
  grid.global.x = 1;
  run_max_backward(call, "max_pool_scatter", 0, grid);
}

void gather(const MaxBackward& call) {
  run_max_backward(call, "max_pool_gather", 0,
                   grid_of(ocl_device(call.grad), call.pool, call.pool.in_h, call.pool.in_w, 2));
}

constexpr Algorithm<MaxBackward> kMaxBackward[] = {
    {"max_pool_gather_vectors", refusal_of_gather_vectors, gather_vectors},
    {"max_pool_scatter", refusal_of_scatter, scatter},
    {"max_pool_gather", nullptr, gather},
};

const OptionalPaths optional({kWindows[0].name, kWindows[1].name, kMaxBackward[0].name,
                              kMaxBackward[1].name});

}  // namespace

Pool make_pool(const at::Tensor& in, const at::Tensor& pooled) {
  const int64_t batch = in.dim() == 4 ? in.size(0) : 1, channels = in.size(-3);
  const bool last = channels_last(in);
  Pool pool{};
  pool.planes = last ? batch : batch * channels;
  pool.channels = last ? channels : 1;
  pool.in_h = in.size(-2), pool.in_w = in.size(-1);
  pool.out_h = pooled.size(-2), pool.out_w = pooled.size(-1);
  pool.kernel_h = pool.kernel_w = pool.stride_h = pool.stride_w = 1;
  pool.dilation_h = pool.dilation_w = 1;
  return pool;
}

void max_pool(const at::Tensor& self, const Pool& pool, bool adaptive, const at::Tensor& out,
              const at::Tensor& indices) {
  run_pool({"max_pool2d", self, out, indices, pool, adaptive, /*backward=*/false});
}

void avg_pool(const at::Tensor& self, const Pool& pool, bool adaptive, const at::Tensor& out) {
  run_pool({"avg_pool2d", self, out, {}, pool, adaptive, /*backward=*/false});
}

void avg_pool_backward(const at::Tensor& grad, const Pool& pool, bool adaptive,
                       const at::Tensor& grad_input) {
  run_pool({"avg_pool2d", grad, grad_input, {}, pool, adaptive, /*backward=*/true});
}

void max_pool_backward(const at::Tensor& grad, const at::Tensor& self, const Pool& pool,
                       bool adaptive, const at::Tensor& indices, const at::Tensor& grad_input) {
  static constexpr const char* kOp = "max_pool2d_backward";
  if (grad_input.numel() == 0) return;
  check_device_has(ocl_device(self), self.scalar_type(), kOp);
  expect_type(grad, self.scalar_type(), kOp);
  expect_type(indices, ScalarType::Long, kOp);
  run_first(kMaxBackward, MaxBackward{grad, indices, grad_input, pool, adaptive});
}

}  // namespace ocl
