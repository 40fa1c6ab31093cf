// The passes of the image operators as OpenCL kernels.
#include <ATen/ceil_div.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include "kernels/core/dtype.h"
#include "kernels/core/grid.h"
#include "kernels/core/tensors.h"
#include "kernels/image/passes.h"

namespace ocl::image {
namespace {

template <typename... Bits>
KernelKey key_of(const char* name, Bits... bits) {
  static Site site;
  return {&site, {reinterpret_cast<uint64_t>(name), static_cast<uint64_t>(bits)...}};
}

Defines pixel_defines(const Tensor& in, const Tensor& out, ScalarType compute) {
  Defines defines = compute_defines(compute);
  defines.set("IN", dtype_name(in.scalar_type())).set("OUT", dtype_name(out.scalar_type()));
  if (in.scalar_type() == ScalarType::Byte) defines.set("BYTES", 1);
  return defines;
}

// The fill of each channel in the image's own type, on its device; numbers beyond the type become
// infinite. Equal fills need no copy from the host, which would wait for the device.
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

// Mirrors Sizes of image_affine.cl.
struct AffineSizes {
  uint64_t in_height, in_width, out_height, out_width;
};

}  // namespace

void on_ocl(const BandPass& pass) {
  static constexpr const char *kRows = "band_rows", *kColumns = "band_columns", *kGpu = "band";
  const auto& [in, out, band, outer, inner] = pass;
  Device& device = ocl_device(in);
  const bool cpu = device.family() == KernelFamily::kCpu, along_rows = inner == 1;
  const bool bytes = in.scalar_type() == ScalarType::Byte;
  const bool same = along_rows && band.same_to - band.same_from > 0;
  const size_t width = !cpu                  ? 1
                       : along_rows && !same ? (band.taps % 4 == 0 ? 4 : 1)
                                             : vector_lanes(device, arithmetic(in));
  const char* name = !cpu ? kGpu : along_rows ? kRows : kColumns;
  const uint64_t types =
      static_cast<uint64_t>(in.scalar_type()) << 8 | static_cast<uint64_t>(out.scalar_type());
  const Kernel& kernel = find_kernel(
      device,
      key_of(name, types,
             band.taps << 8 | width << 2 | uint64_t{band.derivative} << 1 |
                 uint64_t{band.unsigned_sums},
             static_cast<uint64_t>(band.shift) << 2 | uint64_t{along_rows} << 1 | uint64_t{same}),
      [&] {
        Defines defines;
        defines.set("IN", dtype_name(in.scalar_type())).set("OUT", dtype_name(out.scalar_type()));
        defines.set("T", bytes ? "int" : arithmetic(in) == ScalarType::Double ? "double" : "float");
        defines.set("TAPS", band.taps).set("WIDTH", static_cast<int64_t>(width));
        if (bytes) defines.set("BYTES", 1).set("SHIFT", int64_t{band.shift});
        if (bytes && band.unsigned_sums) defines.set("UNSIGNED", 1);
        if (along_rows) defines.set("ROWS", 1).set("AT_ONCE", same ? 1 : kRowsAtOnce);
        if (same) defines.set("SAME", 1);
        if (arithmetic(in) == ScalarType::Double) defines.set("DOUBLE_SUMS", 1);
        if (band.derivative) defines.set("FROM_ZERO", 1);
        return KernelSource{cpu ? "image_band_cpu.cl" : "image_band_gpu.cl", name, defines};
      });
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
  static constexpr const char* kName = "image_gather";
  const auto& [in, out, ys, xs, fill] = pass;
  Device& device = ocl_device(in);
  const int64_t channels = in.size(-3);
  const auto inside = [](const Band& band) {
    return std::all_of(band.starts.begin(), band.starts.end(), [](int32_t i) { return i >= 0; });
  };
  const bool filled = !inside(ys) || !inside(xs);
  const Kernel& kernel =
      find_kernel(device, key_of(kName, in.scalar_type(), channels, filled), [&] {
        Defines defines;
        if (filled) defines.set("FILLED", 1);
        define_grid(defines, device);
        defines.set("IN", dtype_name(bits_type(in.element_size()))).set("CHANNELS", channels);
        return KernelSource{"image_gather.cl", kName, defines};
      });
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
  static constexpr const char *kForward = "image_affine", *kBackward = "image_affine_backward";
  const Tensor &in = pass.in, &out = pass.out;
  Device& device = ocl_device(in);
  const int64_t channels = in.size(-3);
  const char* name = pass.backward ? kBackward : kForward;
  const bool fp64 = device.properties().has_fp64;
  const int shift = pass.small_steps() ? 16 : fp64 ? 0 : 32;
  const bool bytes = in.scalar_type() == ScalarType::Byte;
  const ScalarType compute = bytes && fp64 ? ScalarType::Double : arithmetic(in);
  const Kernel& kernel = find_kernel(
      device,
      key_of(name, in.scalar_type(), channels, shift << 2 | static_cast<int>(pass.interpolation)),
      [&] {
        Defines defines = pixel_defines(in, out, compute);
        define_grid(defines, device);
        defines.set("CHANNELS", channels);
        if (shift > 0) defines.set("SHIFT", int64_t{shift});
        defines.set("INTERPOLATION", static_cast<int64_t>(pass.interpolation));
        if (pass.backward) defines.set("BACKWARD", 1);
        return KernelSource{"image_affine.cl", name, defines};
      });
  // A work-item of the launch computes one pixel of `out` in all channels.
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
  arguments.add(AffineSizes{size(image, -2), size(image, -1), size(result, -2), size(result, -1)});
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

}  // namespace

void on_ocl(const PixelPass& pass) {
  const Tensor &in = pass.in, &out = pass.out;
  const Colors& colors = pass.colors;
  const PixelKernel info = pixel_kernel(pass.op);
  Device& device = ocl_device(in);
  const Shape shape = shape_of(in, info.name);
  // Pillow's HSV of bytes is exact only in double precision.
  const bool exact = pass.op == PixelOp::kHue && in.scalar_type() == ScalarType::Byte &&
                     device.properties().has_fp64;
  const ScalarType compute = exact ? ScalarType::Double : arithmetic(in);
  const size_t width =
      device.family() == KernelFamily::kCpu && info.vectors ? vector_lanes(device, compute) : 1;
  const uint64_t places = static_cast<uint64_t>(colors.red) << 12 | colors.green << 8 |
                          colors.blue << 4 | (colors.alpha + 1);
  const uint64_t types =
      static_cast<uint64_t>(in.scalar_type()) << 8 | static_cast<uint64_t>(out.scalar_type());
  const Kernel& kernel = find_kernel(device, key_of(info.name, types, places, shape.channels), [&] {
    Defines defines = pixel_defines(in, out, compute);
    define_grid(defines, device);
    defines.set("WIDTH", static_cast<int64_t>(width)).set(info.define, 1);
    defines.set("CHANNELS", shape.channels).set("ALPHA", int64_t{colors.alpha});
    defines.set("RED", int64_t{colors.red}).set("GREEN", int64_t{colors.green});
    defines.set("BLUE", int64_t{colors.blue});
    return KernelSource{"image_pixels.cl", info.name, defines};
  });
  const auto pixels = static_cast<uint64_t>(shape.pixels());
  const size_t blocks = at::ceil_div(pixels, width);
  // A normalization passes means and deviations of four channels at a time.
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
