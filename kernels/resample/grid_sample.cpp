// grid_sample: samples images and volumes at the points of a grid; the gradients of both.
#include <ATen/native/GridSampler.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "kernels/core/grids/exchanges.h"
#include "kernels/core/grids/grid.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "native/grid_sample.h"

namespace ocl {
namespace {

using at::Tensor;
using at::native::GridSamplerInterpolation;
using at::native::GridSamplerPadding;

struct Mode {
  GridSamplerInterpolation interpolation;
  GridSamplerPadding padding;
  bool align_corners;

  int64_t taps() const {
    switch (interpolation) {
      case GridSamplerInterpolation::Nearest:
        return 1;
      case GridSamplerInterpolation::Bilinear:
        return 2;
      default:
        return 4;
    }
  }
};

Mode mode_of(int64_t interpolation, int64_t padding, bool align_corners) {
  const auto known = [](int64_t number) { return 0 <= number && number <= 2; };
  TORCH_CHECK(known(interpolation) && known(padding), "grid_sampler: the numbers ", interpolation,
              " and ", padding, " of the interpolation and the padding must be from 0 to 2");
  return {static_cast<GridSamplerInterpolation>(interpolation),
          static_cast<GridSamplerPadding>(padding), align_corners};
}

#include "kernels/resample/grid_sample_parameters.clh"

Sampling sampling_of(const Tensor& input, const Tensor& grid) {
  Sampling s{input.size(0), input.size(1), 1, grid.size(-2), {1, 1, 1}};
  for (int64_t d = 1; d < grid.dim() - 1; ++d) s.points *= grid.size(d);
  for (int64_t d = 0; d < input.dim() - 2; ++d) s.size[d] = input.size(-1 - d);
  return s;
}

struct GridSample {
  const char* kernel;
  ScalarType type;
  int64_t dims;
  Mode mode;
  bool atomic = false;

  KernelSource source(Device& device) const {
    Defines defines = compute_defines(compute_type(type));
    define_grid(defines, device);
    defines.set("IN", dtype_name(type)).set("DIMS", dims).set("TAPS", mode.taps());
    if (mode.padding == GridSamplerPadding::Border) defines.set("BORDER", 1);
    if (mode.padding == GridSamplerPadding::Reflection) defines.set("REFLECTION", 1);
    if (mode.align_corners) defines.set("ALIGN", 1);
    if (atomic) defines.set("ATOMIC", 1);
    return {"grid_sample.cl", kernel, defines};
  }
};

void check(const Tensor& input, const Tensor& grid, int64_t interpolation) {
  at::native::check_grid_sampler_common(input, grid);
  if (input.dim() == 4) {
    at::native::check_grid_sampler_2d(input, grid);
  } else {
    at::native::check_grid_sampler_3d(input, grid, interpolation);
  }
  const Device& device = ocl_device(input);
  check_floating(device, input.scalar_type(), "grid_sampler");
  check_device_has(device, input.scalar_type(), "grid_sampler");
  expect_type(grid, input.scalar_type(), "grid_sampler");
}

at::DimVector result_sizes(const Tensor& input, const Tensor& grid) {
  at::DimVector sizes{input.size(0), input.size(1)};
  for (int64_t d = 1; d < grid.dim() - 1; ++d) sizes.push_back(grid.size(d));
  return sizes;
}

Tensor forward(const Tensor& input, const Tensor& grid, int64_t interpolation, int64_t padding,
               bool align_corners) {
  check(input, grid, interpolation);
  Tensor out = at::empty(result_sizes(input, grid), input.options());
  if (out.numel() > 0) {
    Device& device = ocl_device(input);
    const Tensor in = input.contiguous(), points = grid.contiguous();
    const Sampling s = sampling_of(in, points);
    const auto units = static_cast<uint64_t>(s.batch * s.points / s.row);
    const UnitGrid shape =
        unit_grid(device, units, static_cast<size_t>(s.row), static_cast<size_t>(8 * s.channels));
    const GridSample sample{"grid_sample", in.scalar_type(), in.dim() - 2,
                            mode_of(interpolation, padding, align_corners)};
    launch(stream_of(in), find_kernel(device, sample), shape.global, shape.local, view(in),
           view(points), view(out), s, units, shape.per_item);
  }
  return out;
}

// Sums in float32 if the image has 16 bits, because many small numbers are added to one element.
Tensor gradient_of_input(const Tensor& grad, const Tensor& input, const Tensor& grid,
                         const Mode& mode) {
  Device& device = ocl_device(input);
  const ScalarType type = input.scalar_type();
  const Tensor out = at::zeros(input.sizes(), input.options().dtype(compute_type(type)));
  if (grad.numel() == 0) return out.to(type);
  const Sampling s = sampling_of(input, grid);
  const auto planes = static_cast<uint64_t>(s.batch * s.channels),
             rows = static_cast<uint64_t>(s.batch * s.points / s.row);
  if (adds_atomically(device, type)) {
    const UnitGrid shape = unit_grid(device, rows, static_cast<size_t>(s.row));
    const double additions = static_cast<double>(s.batch * s.points) *
                             std::pow(mode.taps(), static_cast<double>(input.dim() - 2));
    const GridSample add{"grid_sample_input_atomic", type, input.dim() - 2, mode, true};
    Arguments arguments(stream_of(out), find_kernel(device, add));
    arguments.add(view(grad)).add(view(grid)).add(view(out)).add(s).add(rows).add(shape.per_item);
    arguments.enqueue(shape.global, shape.local, work_of_writes(device, additions));
    return out.to(type);
  }
  const UnitGrid shape = unit_grid(device, planes, 1, static_cast<size_t>(8 * s.points));
  const int64_t most = device.family() == KernelFamily::kGpu ? kMostSumsInOrder : s.points;
  const GridSample add{"grid_sample_input", type, input.dim() - 2, mode};
  for (int64_t first = 0; first < s.points; first += most) {
    launch(stream_of(out), find_kernel(device, add), shape.global, shape.local, view(grad),
           view(grid), view(out), s, planes, shape.per_item, first,
           std::min(first + most, s.points));
  }
  return out.to(type);
}

Tensor gradient_of_grid(const Tensor& grad, const Tensor& input, const Tensor& grid,
                        const Mode& mode) {
  if (mode.interpolation == GridSamplerInterpolation::Nearest || grad.numel() == 0) {
    return at::zeros_like(grid, at::MemoryFormat::Contiguous);
  }
  Device& device = ocl_device(input);
  const Tensor out = at::empty_like(grid, at::MemoryFormat::Contiguous);
  const Sampling s = sampling_of(input, grid);
  const auto units = static_cast<uint64_t>(s.batch * s.points / s.row);
  const UnitGrid shape =
      unit_grid(device, units, static_cast<size_t>(s.row), static_cast<size_t>(8 * s.channels));
  const GridSample of_grid{"grid_sample_grid", input.scalar_type(), input.dim() - 2, mode};
  launch(stream_of(out), find_kernel(device, of_grid), shape.global, shape.local, view(grad),
         view(input), view(grid), view(out), s, units, shape.per_item);
  return out;
}

std::tuple<Tensor, Tensor> backward(const Tensor& grad_any, const Tensor& input, const Tensor& grid,
                                    const Mode& mode, std::array<bool, 2> mask) {
  check(input, grid, static_cast<int64_t>(mode.interpolation));
  expect_type(grad_any, input.scalar_type(), "grid_sampler_backward");
  TORCH_CHECK(grad_any.sizes() == result_sizes(input, grid),
              "grid_sampler_backward: grad_output has sizes ", grad_any.sizes(),
              ", but the result has ", result_sizes(input, grid));
  const Tensor grad = grad_any.contiguous(), in = input.contiguous(), points = grid.contiguous();
  return {mask[0] ? gradient_of_input(grad, in, points, mode) : Tensor(),
          mask[1] ? gradient_of_grid(grad, in, points, mode) : Tensor()};
}

}  // namespace

namespace native {

OCL_NATIVE_AS("grid_sampler_2d", grid_sampler_2d,
              forward(input, grid, interpolation_mode, padding_mode, align_corners))

// PyTorch's implementation would read the tensors on the host.
OCL_NATIVE_AS("_grid_sampler_2d_cpu_fallback", grid_sampler_2d_cpu_fallback,
              forward(input, grid, interpolation_mode, padding_mode, align_corners))

OCL_NATIVE_AS("grid_sampler_3d", grid_sampler_3d,
              forward(input, grid, interpolation_mode, padding_mode, align_corners))

OCL_NATIVE_AS("grid_sampler_2d_backward", grid_sampler_2d_backward,
              backward(grad_output, input, grid,
                       mode_of(interpolation_mode, padding_mode, align_corners), output_mask))

OCL_NATIVE_AS("grid_sampler_3d_backward", grid_sampler_3d_backward,
              backward(grad_output, input, grid,
                       mode_of(interpolation_mode, padding_mode, align_corners), output_mask))

}  // namespace native
}  // namespace ocl
