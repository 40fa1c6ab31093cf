// Deformable convolution: multiplies the weight by columns that are read from the images at
// positions moved by offsets. A block of images is computed at a time, so that the columns stay
// small.
#include <ATen/ceil_div.h>
#include <ATen/ops/add.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "kernels/core/grids/exchanges.h"
#include "kernels/core/grids/grid.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/vision/vision.h"

namespace ocl::vision {
namespace {

// The most images of a block, as in torchvision, and the most elements of its columns, unless one
// image has more.
constexpr int64_t kMostImages = 32, kMostElements = int64_t{1} << 26;

struct Pair {
  int64_t y, x;
};

// The sizes of a call.
struct Geometry {
  Pair stride, pad, dilation;
  int64_t groups, offset_groups;
  bool use_mask;
};

#include "kernels/vision/cl/deform_conv_parameters.clh"

int64_t places_of(const Deform& s) { return s.out_height * s.out_width; }

int64_t columns_of_image(const Deform& s) { return s.channels * s.taps * places_of(s); }

struct DeformKernel {
  const char* name;
  ScalarType type;
  int64_t chunk;
  bool masked;
  bool atomic = false;

  KernelSource source(Device& device) const {
    Defines defines = compute_defines(compute_type(type));
    define_grid(defines, device);
    defines.set("IN", dtype_name(type)).set("CHUNK", chunk);
    if (masked) defines.set("HAS_MASK", 1);
    if (atomic) defines.set("ATOMIC", 1);
    return {"deform_conv.cl", name, defines};
  }
};

int64_t out_size(int64_t size, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
  return (size + 2 * pad - (dilation * (kernel - 1) + 1)) / stride + 1;
}

// torchvision's checks, and checks of sizes that its kernels rely on.
Deform check(const char* op, const Tensor& input, const Tensor& weight, const Tensor& offset,
             const Tensor& mask, const Tensor& bias, const Geometry& g) {
  check_operands(
      op,
      {{"input", input}, {"weight", weight}, {"offset", offset}, {"mask", mask}, {"bias", bias}});
  const Device& device = ocl_device(input);
  check_floating(device, compute_type(input.scalar_type()), op);
  check_device_has(device, input.scalar_type(), op);
  for (const Tensor* tensor : {&weight, &offset, &bias}) {
    expect_type(*tensor, input.scalar_type(), op);
  }
  const auto four = [&](const char* name, const Tensor& tensor) {
    TORCH_CHECK(tensor.dim() == 4, op, ": ", name, " must have 4 dimensions, but has sizes ",
                tensor.sizes());
  };
  four("input", input);
  four("weight", weight);
  four("offset", offset);
  if (g.use_mask) {
    four("mask", mask);
    expect_type(mask, input.scalar_type(), op);
  }
  const auto bounded = [&](const char* name, const Pair& pair, int64_t least) {
    TORCH_CHECK(std::min(pair.y, pair.x) >= least && std::max(pair.y, pair.x) <= INT32_MAX, op,
                ": ", name, " is ", pair.y, " x ", pair.x, ", but must be at least ", least,
                " and below 2^31");
  };
  const Pair kernel{weight.size(2), weight.size(3)};
  bounded("the kernel's size", kernel, 1);
  bounded("stride", g.stride, 1);
  bounded("pad", g.pad, 0);
  bounded("dilation", g.dilation, 1);
  const int64_t channels = input.size(1), taps = kernel.y * kernel.x;
  TORCH_CHECK(
      g.groups > 0 && weight.size(1) * g.groups == channels && weight.size(0) % g.groups == 0, op,
      ": weight of sizes ", weight.sizes(), " in ", g.groups, " groups does not fit an input of ",
      channels, " channels");
  TORCH_CHECK(g.offset_groups > 0 && channels % g.offset_groups == 0, op, ": ", g.offset_groups,
              " groups of offsets do not divide the ", channels, " channels of the input");
  const Pair out{out_size(input.size(2), kernel.y, g.stride.y, g.pad.y, g.dilation.y),
                 out_size(input.size(3), kernel.x, g.stride.x, g.pad.x, g.dilation.x)};
  const auto sizes = [&](const char* name, const Tensor& tensor, at::IntArrayRef expected) {
    TORCH_CHECK(tensor.sizes() == expected, op, ": ", name, " has sizes ", tensor.sizes(),
                ", but must have ", expected);
  };
  const int64_t images = input.size(0);
  sizes("offset", offset, {images, g.offset_groups * 2 * taps, out.y, out.x});
  if (g.use_mask) sizes("mask", mask, {images, g.offset_groups * taps, out.y, out.x});
  TORCH_CHECK(mask.dim() > 0 && mask.size(0) == images, op, ": mask has sizes ", mask.sizes(),
              ", but must have the batch size ", images);
  TORCH_CHECK(bias.numel() == weight.size(0), op, ": bias has sizes ", bias.sizes(),
              ", but must have ", weight.size(0), " numbers");
  TORCH_CHECK(out.y > 0 && out.x > 0, op, ": the calculated output size ", out.y, " x ", out.x,
              " is too small");
  Deform deform{images,  channels, input.size(2), input.size(3), out.y,
                out.x,   taps,     kernel.x,      g.stride.y,    g.stride.x,
                g.pad.y, g.pad.x,  g.dilation.y,  g.dilation.x,  g.offset_groups,
                1};
  deform.chunks = at::ceil_div(channels / g.offset_groups, channels_at_once(device));
  return deform;
}

// Contiguous operands for a block of images. `mask` is any tensor if there is no mask.
struct Block {
  Deform deform;
  Tensor input, offset, mask;
  bool masked;

  Block part(int64_t first, int64_t count) const {
    Block block = *this;
    block.deform.images = count;
    block.input = input.narrow(0, first, count);
    block.offset = offset.narrow(0, first, count);
    block.mask = masked ? mask.narrow(0, first, count) : block.offset;
    return block;
  }
};

Block make_block(const Deform& deform, const Tensor& input, const Tensor& offset,
                 const Tensor& mask, bool masked) {
  return {deform, input.contiguous(), offset.contiguous(), masked ? mask.contiguous() : Tensor(),
          masked};
}

template <typename Body>
void for_blocks(const Block& all, Body&& body) {
  const int64_t images = all.deform.images;
  const int64_t fitting = kMostElements / std::max<int64_t>(columns_of_image(all.deform), 1);
  const int64_t most = std::clamp<int64_t>(fitting, 1, kMostImages);
  for (int64_t first = 0; first < images; first += most) {
    const int64_t count = std::min(most, images - first);
    body(all.part(first, count), first, count);
  }
}

DeformKernel kernel_of(const Device& device, const char* name, const Block& block,
                       bool atomic = false) {
  return {name, block.input.scalar_type(), channels_at_once(device), block.masked, atomic};
}

// [groups][channels of a group * taps][images * places]
Tensor make_columns(const Block& block, int64_t groups) {
  const Deform& s = block.deform;
  Device& device = ocl_device(block.input);
  const Tensor columns = at::empty({groups, s.channels / groups * s.taps, s.images * places_of(s)},
                                   block.input.options());
  if (columns.numel() == 0) return columns;
  const DeformKernel kernel = kernel_of(device, "deform_columns", block);
  const auto units = static_cast<uint64_t>(s.groups * s.chunks * s.taps * s.images * s.out_height);
  const UnitGrid grid = unit_grid(device, units, static_cast<size_t>(s.out_width),
                                  static_cast<size_t>(8 * kernel.chunk));
  launch(stream_of(columns), find_kernel(device, kernel), grid.global, grid.local,
         view(block.input), view(block.offset), view(block.mask), view(columns), s, units,
         grid.per_item);
  return columns;
}

void add_offset_gradients(const Block& block, const Tensor& columns, const Tensor& grad_offset,
                          const Tensor& grad_mask) {
  const Deform& s = block.deform;
  Device& device = ocl_device(block.input);
  const auto units = static_cast<uint64_t>(s.groups * s.taps * s.images * s.out_height);
  const UnitGrid grid = unit_grid(device, units, static_cast<size_t>(s.out_width),
                                  static_cast<size_t>(12 * s.channels / s.groups + 1));
  launch(stream_of(columns), find_kernel(device, kernel_of(device, "deform_offset", block)),
         grid.global, grid.local, view(columns), view(block.input), view(block.offset),
         view(block.mask), view(grad_offset), view(grad_mask), s, units, grid.per_item);
}

void add_input_gradients(const Block& block, const Tensor& columns, const Tensor& grad_input) {
  const Deform& s = block.deform;
  Device& device = ocl_device(block.input);
  const bool atomic = adds_atomically(device, columns.scalar_type());
  const auto planes = static_cast<uint64_t>(s.groups * s.chunks * s.images);
  const int64_t points = s.taps * places_of(s);
  const auto run = [&](const char* name, uint64_t units, const UnitGrid& grid, double work,
                       const auto&... range) {
    Arguments arguments(stream_of(columns),
                        find_kernel(device, kernel_of(device, name, block, atomic)));
    arguments.add(view(columns)).add(view(block.offset)).add(view(block.mask));
    arguments.add(view(grad_input)).add(s).add(units).add(grid.per_item);
    (arguments.add(range), ...);
    arguments.enqueue(grid.global, grid.local, work);
  };
  if (atomic) {
    const uint64_t units = planes * static_cast<uint64_t>(s.taps * s.out_height);
    run("deform_input_atomic", units, unit_grid(device, units, static_cast<size_t>(s.out_width)),
        work_of_writes(device, 4.0 * static_cast<double>(columns.numel())));
    return;
  }
  const UnitGrid grid = unit_grid(device, planes, 1, static_cast<size_t>(32 * points));
  const int64_t most = device.family() == KernelFamily::kGpu ? kMostSumsInOrder : points;
  for (int64_t first = 0; first < points; first += most) {
    run("deform_input", planes, grid, 0, first, std::min(first + most, points));
  }
}

// [groups][channels of a group][images * places], like the columns.
Tensor by_groups(const Tensor& grad, int64_t groups) {
  return grad.transpose(0, 1).reshape(
      {groups, grad.size(1) / groups, grad.size(0) * grad.size(2) * grad.size(3)});
}

Tensor matrices_of(const Tensor& weight, int64_t groups) {
  const int64_t columns = weight.size(1) * weight.size(2) * weight.size(3);
  return weight.reshape({groups, weight.size(0) / groups, columns});
}

}  // namespace

Tensor deform_conv2d(const Tensor& input, const Tensor& weight, const Tensor& offset,
                     const Tensor& mask, const Tensor& bias, int64_t stride_h, int64_t stride_w,
                     int64_t pad_h, int64_t pad_w, int64_t dilation_h, int64_t dilation_w,
                     int64_t groups, int64_t offset_groups, bool use_mask) {
  const Geometry geometry{{stride_h, stride_w}, {pad_h, pad_w}, {dilation_h, dilation_w}, groups,
                          offset_groups,        use_mask};
  const Deform deform =
      check("torchvision::deform_conv2d", input, weight, offset, mask, bias, geometry);
  const int64_t channels = weight.size(0);
  const Tensor out =
      at::empty({deform.images, channels, deform.out_height, deform.out_width}, input.options());
  if (out.numel() == 0) return out;
  const Tensor matrices = matrices_of(weight, groups), each = bias.reshape({channels, 1});
  for_blocks(make_block(deform, input, offset, mask, use_mask),
             [&](const Block& block, int64_t first, int64_t count) {
               const Tensor product = at::bmm(matrices, make_columns(block, groups));
               Tensor result = out.narrow(0, first, count).flatten(2);
               at::add_out(result, product.view({channels, count, -1}).transpose(0, 1), each);
             });
  return out;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> deform_conv2d_backward(
    const Tensor& grad, const Tensor& input, const Tensor& weight, const Tensor& offset,
    const Tensor& mask, const Tensor& bias, int64_t stride_h, int64_t stride_w, int64_t pad_h,
    int64_t pad_w, int64_t dilation_h, int64_t dilation_w, int64_t groups, int64_t offset_groups,
    bool use_mask) {
  constexpr const char* kOp = "torchvision::_deform_conv2d_backward";
  const Geometry geometry{{stride_h, stride_w}, {pad_h, pad_w}, {dilation_h, dilation_w}, groups,
                          offset_groups,        use_mask};
  const Deform deform = check(kOp, input, weight, offset, mask, bias, geometry);
  check_operands(kOp, {{"input", input}, {"grad", grad}});
  expect_type(grad, input.scalar_type(), kOp);
  const std::array<int64_t, 4> expected{deform.images, weight.size(0), deform.out_height,
                                        deform.out_width};
  TORCH_CHECK(grad.sizes() == at::IntArrayRef(expected), kOp, ": grad has sizes ", grad.sizes(),
              ", but the result has ", at::IntArrayRef(expected));
  const ScalarType type = input.scalar_type();
  const at::TensorOptions sums = input.options().dtype(compute_type(type));
  const Tensor matrices = matrices_of(weight, groups);
  Tensor grad_input = at::zeros(input.sizes(), sums);
  Tensor grad_weight = at::zeros(matrices.sizes(), sums);
  const Tensor grad_offset = at::zeros_like(offset, at::MemoryFormat::Contiguous);
  const Tensor grad_mask = at::zeros_like(mask, at::MemoryFormat::Contiguous);
  if (input.numel() > 0 && grad.numel() > 0) {
    for_blocks(make_block(deform, input, offset, mask, use_mask),
               [&](const Block& block, int64_t first, int64_t count) {
                 const Tensor g = by_groups(grad.narrow(0, first, count), groups);
                 {
                   const Tensor columns = at::bmm(matrices.transpose(1, 2), g);
                   const Tensor offsets = grad_offset.narrow(0, first, count);
                   add_offset_gradients(block, columns, offsets,
                                        use_mask ? grad_mask.narrow(0, first, count) : offsets);
                   add_input_gradients(block, columns, grad_input.narrow(0, first, count));
                 }
                 grad_weight.add_(at::bmm(g, make_columns(block, groups).transpose(1, 2)));
               });
  }
  return {grad_input.to(type), grad_weight.view(weight.sizes()).to(type), grad_offset, grad_mask,
          grad.sum({0, 2, 3}).view(bias.sizes())};
}

}  // namespace ocl::vision
