// The passes of the image operators as OpenCL kernels.
#include <ATen/ceil_div.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include "kernels/core/grids/grid.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/image/passes.h"

namespace ocl::image {
namespace {

struct Types {
  ScalarType in, out, compute;

  Defines defines() const {
    Defines defines = compute_defines(compute);
    defines.set("IN", dtype_name(in)).set("OUT", dtype_name(out));
    if (in == ScalarType::Byte) defines.set("BYTES", 1);
    return defines;
  }
};

// The fill of each channel in the image's type, on its device. Numbers out of the type's range
// become infinite. Equal fills need no copy from the host, which would wait for the device.
Tensor fills_of(const Tensor& img, const std::vector<double>& fill) {
  const auto channels = static_cast<int64_t>(fill.size());
  const Tensor converted =
      at::tensor(fill, at::TensorOptions().dtype(ScalarType::Double)).to(img.scalar_type());
  if (std::adjacent_find(fill.begin(), fill.end(), std::not_equal_to<>()) == fill.end()) {
    return at::full({channels}, converted[0].item(), img.options());
  }
  return converted.to(img.device());
}

constexpr int64_t kRowsAtOnce = 4;

// Scales of image_pixels.cl, for four channels from `first` on.
std::array<double, 10> scales_of(const PixelPass& pass, size_t first) {
  std::array<double, 10> scales{pass.colors.low, pass.colors.high - pass.colors.low};
  for (size_t i = 0; i < 4 && first + i < pass.mean.size(); ++i) {
    scales[2 + i] = pass.mean[first + i];
    scales[6 + i] = pass.deviation[first + i];
  }
  return scales;
}

#include "kernels/image/cl/image_affine_parameters.clh"

struct BandSums {
  ScalarType in, out, compute;
  bool along_rows, same, unsigned_sums, derivative;
  int shift;
  int64_t taps;
  size_t width;

  KernelSource source(Device& device) const {
    const bool cpu = device.family() == KernelFamily::kCpu, bytes = in == ScalarType::Byte;
    const bool wide = compute == ScalarType::Double;
    const char* name = !cpu ? "band" : along_rows ? "band_rows" : "band_columns";
    Defines defines;
    defines.set("IN", dtype_name(in)).set("OUT", dtype_name(out));
    defines.set("T", bytes ? "int" : wide ? "double" : "float");
    defines.set("TAPS", taps).set("WIDTH", static_cast<int64_t>(width));
    if (bytes) defines.set("BYTES", 1).set("SHIFT", int64_t{shift});
    if (unsigned_sums) defines.set("UNSIGNED", 1);
    if (along_rows) defines.set("ROWS", 1).set("AT_ONCE", same ? 1 : kRowsAtOnce);
    if (same) defines.set("SAME", 1);
    if (wide) defines.set("DOUBLE_SUMS", 1);
    if (derivative) defines.set("FROM_ZERO", 1);
    return {cpu ? "image_band_cpu.cl" : "image_band_gpu.cl", name, defines};
  }
};

struct Gather {
  ScalarType bits;
  bool filled;
  int64_t channels;

  KernelSource source(Device& device) const {
    Defines defines;
    if (filled) defines.set("FILLED", 1);
    define_grid(defines, device);
    defines.set("IN", dtype_name(bits)).set("CHANNELS", channels);
    return {"image_gather.cl", "image_gather", defines};
  }
};

struct Affine {
  Types types;
  bool backward;
  Interpolation interpolation;
  int shift;
  int64_t channels;

  KernelSource source(Device& device) const {
    Defines defines = types.defines();
    define_grid(defines, device);
    defines.set("CHANNELS", channels);
    if (shift > 0) defines.set("SHIFT", int64_t{shift});
    defines.set("INTERPOLATION", static_cast<int64_t>(interpolation));
    if (backward) defines.set("BACKWARD", 1);
    return {"image_affine.cl", backward ? "image_affine_backward" : "image_affine", defines};
  }
};

}  // namespace

void on_ocl(const BandPass& pass) {
  const auto& [in, out, band, outer, inner] = pass;
  Device& device = ocl_device(in);
  const bool cpu = device.family() == KernelFamily::kCpu, along_rows = inner == 1;
  const bool bytes = in.scalar_type() == ScalarType::Byte;
  const bool same = along_rows && band.same_to - band.same_from > 0;
  const size_t width = !cpu                  ? 1
                       : along_rows && !same ? (band.taps % 4 == 0 ? 4 : 1)
                                             : vector_lanes(device, arithmetic(in));
  const Kernel& kernel =
      find_kernel(device, BandSums{in.scalar_type(), out.scalar_type(), arithmetic(in), along_rows,
                                   same, bytes && band.unsigned_sums, band.derivative,
                                   bytes ? band.shift : 0, band.taps, width});
  const auto [starts, weights] = band.tables(in, bytes ? ScalarType::Int : arithmetic(in));
  const uint64_t rows = along_rows ? outer : outer * band.out_size;
  Arguments arguments(stream_of(in), kernel);
  arguments.add(view(in)).add(view(out)).add(view(starts)).add(view(weights));
  arguments.add(rows).add(static_cast<uint64_t>(band.in_size));
  arguments.add(static_cast<uint64_t>(band.out_size));
  if (!cpu) {
    const UnitGrid grid = unit_grid(device, rows, along_rows ? band.out_size : inner);
    arguments.add(static_cast<uint64_t>(inner)).enqueue(grid.global, grid.local);
    return;
  }
  const TaskShares shares = task_shares(device, rows, out.numel() * band.taps);
  arguments.add(shares.per_task);
  if (along_rows) {
    arguments.add(static_cast<uint64_t>(band.same_from)).add(static_cast<uint64_t>(band.same_to));
  } else {
    arguments.add(static_cast<uint64_t>(inner));
  }
  arguments.enqueue({shares.tasks}, {1});
}

void on_ocl(const GatherPass& pass) {
  const auto& [in, out, ys, xs, fill] = pass;
  Device& device = ocl_device(in);
  const auto inside = [](const Band& band) {
    return std::all_of(band.starts.begin(), band.starts.end(), [](int32_t i) { return i >= 0; });
  };
  const bool filled = !inside(ys) || !inside(xs);
  const Kernel& kernel =
      find_kernel(device, Gather{bits_type(in.element_size()), filled, in.size(-3)});
  const Tensor y = ys.tables(in, ScalarType::Int).first, x = xs.tables(in, ScalarType::Int).first;
  const Tensor fills = filled ? fills_of(in, fill) : in;
  const auto height = static_cast<uint64_t>(out.size(-2)),
             width = static_cast<uint64_t>(out.size(-1));
  const uint64_t rows = out.numel() / width;
  const UnitGrid grid = unit_grid(device, rows, width);
  launch(stream_of(in), kernel, grid.global, grid.local, view(in), view(out), view(y), view(x),
         view(fills), rows, width, grid.per_item, height, static_cast<uint64_t>(in.size(-2)),
         static_cast<uint64_t>(in.size(-1)));
}

void on_ocl(const AffinePass& pass) {
  const Tensor &in = pass.in, &out = pass.out;
  Device& device = ocl_device(in);
  const int64_t channels = in.size(-3);
  const bool fp64 = device.properties().has_fp64;
  const int shift = pass.small_steps() ? 16 : fp64 ? 0 : 32;
  const bool bytes = in.scalar_type() == ScalarType::Byte;
  const ScalarType compute = bytes && fp64 ? ScalarType::Double : arithmetic(in);
  const Types types{in.scalar_type(), out.scalar_type(), compute};
  const Kernel& kernel =
      find_kernel(device, Affine{types, pass.backward, pass.interpolation, shift, channels});
  // A work-item computes one pixel of `out` in all channels.
  const auto width = static_cast<size_t>(out.size(-1));
  const uint64_t rows = out.numel() / channels / width;
  const size_t cost = channels * (pass.interpolation == Interpolation::kNearest ? 2 : 16);
  const UnitGrid grid = unit_grid(device, rows, width, cost);
  Arguments arguments(stream_of(in), kernel);
  arguments.add(view(in)).add(view(out)).add(rows).add(grid.per_item);
  const Tensor &image = pass.backward ? out : in, &result = pass.backward ? in : out;
  const auto size = [](const Tensor& tensor, int64_t dim) {
    return static_cast<uint64_t>(tensor.size(dim));
  };
  arguments.add(Sizes{size(image, -2), size(image, -1), size(result, -2), size(result, -1)});
  if (shift > 0) {
    arguments.add(pass.fixed(shift));
  } else {
    arguments.add(pass.matrix);
  }
  Tensor fills;
  if (pass.backward) {
    const auto inverse = pass.inverse();
    add_numbers(arguments, inverse.value_or(std::array<double, 6>{}), compute);
    arguments.add(int32_t{inverse.has_value()});
  } else {
    fills = fills_of(out, pass.fill);
    arguments.add(view(fills));
  }
  arguments.enqueue(grid.global, grid.local);
}

namespace {

struct PixelKernel {
  const char *name, *define;
  bool planes;  // units are channels, else images
  bool vectors;
};

PixelKernel pixel_kernel(PixelOp op) {
  switch (op) {
    case PixelOp::kBlend:
      return {"image_blend_planes", "BLEND", true, true};
    case PixelOp::kNormalize:
      return {"image_normalize_planes", "NORMALIZE", true, true};
    case PixelOp::kLuma:
      return {"image_luma_planes", "LUMA", false, true};
    case PixelOp::kSaturate:
      return {"image_saturate", "SATURATE", false, true};
    case PixelOp::kHue:
      return {"image_hue_pixels", "HUE", false, true};
    default:
      return {"image_hue_backward", "HUE_BACKWARD", false, false};
  }
}

struct Pixels {
  PixelOp op;
  Types types;
  size_t width;
  int64_t channels;
  int red, green, blue, alpha;

  KernelSource source(Device& device) const {
    const PixelKernel info = pixel_kernel(op);
    Defines defines = types.defines();
    define_grid(defines, device);
    defines.set("WIDTH", static_cast<int64_t>(width)).set(info.define, 1);
    defines.set("CHANNELS", channels).set("ALPHA", alpha);
    defines.set("RED", red).set("GREEN", green).set("BLUE", blue);
    return {"image_pixels.cl", info.name, defines};
  }
};

}  // namespace

void on_ocl(const PixelPass& pass) {
  const Tensor &in = pass.in, &out = pass.out;
  const Colors& colors = pass.colors;
  const PixelKernel info = pixel_kernel(pass.op);
  Device& device = ocl_device(in);
  const Shape shape = shape_of(in, info.name);
  // Only double precision gives exactly Pillow's HSV of bytes.
  const bool exact = pass.op == PixelOp::kHue && in.scalar_type() == ScalarType::Byte &&
                     device.properties().has_fp64;
  const ScalarType compute = exact ? ScalarType::Double : arithmetic(in);
  const size_t width =
      device.family() == KernelFamily::kCpu && info.vectors ? vector_lanes(device, compute) : 1;
  const Types types{in.scalar_type(), out.scalar_type(), compute};
  const Kernel& kernel =
      find_kernel(device, Pixels{pass.op, types, width, shape.channels, colors.red, colors.green,
                                 colors.blue, colors.alpha});
  const auto pixels = static_cast<uint64_t>(shape.pixels());
  const size_t blocks = at::ceil_div(pixels, width);
  // A launch normalizes four channels, whose means and deviations are its arguments.
  const int64_t at_a_time = pass.op == PixelOp::kNormalize ? 4 : shape.channels;
  for (int64_t first = 0; first < shape.channels; first += at_a_time) {
    const int64_t channels = std::min(at_a_time, shape.channels - first);
    const uint64_t units = info.planes ? shape.images * channels : shape.images;
    const UnitGrid grid = unit_grid(device, units, blocks,
                                    width * (info.planes    ? 1
                                             : info.vectors ? 4
                                                            : 32));
    Arguments arguments(stream_of(in), kernel);
    const auto number = [&](double value) { add_number(arguments, value, compute); };
    arguments.add(view(in));
    const bool leveled = pass.other.defined();
    if (pass.op == PixelOp::kBlend) arguments.add(view(leveled ? pass.other : in));
    if (pass.op == PixelOp::kHueBackward) arguments.add(view(pass.other));
    arguments.add(view(out)).add(units).add(pixels).add(grid.per_item);
    switch (pass.op) {
      case PixelOp::kBlend:
        number(pass.factor), number(colors.low), number(colors.high);
        arguments.add(int32_t{leveled});
        break;
      case PixelOp::kNormalize:
        arguments.add(static_cast<int32_t>(first)).add(static_cast<int32_t>(channels));
        add_numbers(arguments, scales_of(pass, first), compute);
        break;
      case PixelOp::kLuma:
        for (const double weight : colors.luma) number(weight);
        break;
      case PixelOp::kSaturate:
        add_numbers(arguments,
                    std::array{colors.luma[0], colors.luma[1], colors.luma[2], pass.factor,
                               colors.low, colors.high},
                    compute);
        break;
      default:
        number(pass.factor);
    }
    arguments.enqueue(grid.global, grid.local);
  }
}

}  // namespace ocl::image
