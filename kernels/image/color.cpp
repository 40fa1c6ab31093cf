// normalize and the adjustments of brightness, contrast, saturation (PIL.ImageEnhance) and hue.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>

#include "kernels/core/tensors/tensors.h"
#include "kernels/image/ops.h"
#include "kernels/image/passes.h"

namespace ocl::image {
namespace {

Tensor result_like(const Tensor& img) {
  Tensor out = at::empty(img.sizes(), img.options().memory_format(at::MemoryFormat::Contiguous));
  pass_description(img, out);
  return out;
}

Tensor adjust(PixelOp op, const Tensor& img, const Colors& colors, double factor,
              const Tensor& other = {}) {
  Tensor out = result_like(img);
  const Tensor in = img.contiguous();
  run(PixelPass{op, in, out, colors, factor, other});
  return out;
}

Shape check(const Tensor& img, const char* op) {
  const Shape shape = shape_of(img, op);
  check_type(img, op);
  return shape;
}

// The mean luminance of each image, in the type of the arithmetic. Rounded for bytes, as in
// PIL.ImageEnhance.Contrast.
Tensor mean_luma(const Tensor& img, const Shape& shape) {
  const Tensor gray = luma(img).reshape({shape.images, shape.pixels()});
  if (img.scalar_type() != ScalarType::Byte) return gray.to(arithmetic(img)).mean(-1);
  const Tensor sum = gray.sum(-1, false, ScalarType::Long);
  return (sum * 2 + shape.pixels()).floor_divide(shape.pixels() * 2).to(arithmetic(img));
}

// The rotation of the hue; 6 is the whole circle. For bytes, 256 is the whole circle, rounded as in
// torchvision.
double turn_of(const Tensor& img, double factor) {
  TORCH_CHECK_VALUE(-0.5 <= factor && factor <= 0.5, "torch_ocl::adjust_hue: factor is ", factor,
                    ", but must be from -0.5 to 0.5");
  if (img.scalar_type() != ScalarType::Byte) return factor * 6;
  return static_cast<double>(static_cast<int>(factor * 255) & 255);
}

}  // namespace

Tensor normalize(const Tensor& img, at::ArrayRef<double> mean, at::ArrayRef<double> std) {
  static constexpr const char* kOp = "torch_ocl::normalize";
  const Shape shape = check(img, kOp);
  std::vector<double> deviations = per_channel(std, shape.channels, "std", kOp);
  for (const double deviation : deviations) {
    TORCH_CHECK_VALUE(deviation != 0, kOp, ": std holds a zero");
  }
  const auto [low, high] = range_of(img);
  const bool bytes = img.scalar_type() == ScalarType::Byte;
  Tensor out =
      at::empty(img.sizes(), bytes ? img.options().dtype(ScalarType::Float) : img.options());
  ImageDescription said = description_of(img);
  said.value_range = std::nullopt;
  if (!said.empty()) describe(out, std::move(said));
  const Tensor in = img.contiguous();
  run(PixelPass{.op = PixelOp::kNormalize,
                .in = in,
                .out = out,
                .colors = {.low = low, .high = high},
                .mean = per_channel(mean, shape.channels, "mean", kOp),
                .deviation = std::move(deviations)});
  return out;
}

Tensor normalize_backward(const Tensor& grad, const Tensor& img, at::ArrayRef<double> std) {
  static constexpr const char* kOp = "torch_ocl::_normalize_backward";
  const int64_t channels = check_gradient(grad, kOp).channels;
  const auto [low, high] = range_of(img);
  const Tensor in = grad.contiguous();
  Tensor out = at::empty_like(in);
  run(PixelPass{.op = PixelOp::kNormalize,
                .in = in,
                .out = out,
                .colors = {.low = 0, .high = high - low},
                .mean = std::vector<double>(channels),
                .deviation = per_channel(std, channels, "std", kOp)});
  return out;
}

Tensor luma(const Tensor& img) {
  static constexpr const char* kOp = "torch_ocl::luma";
  check(img, kOp);
  const Colors colors = colors_of(img, kOp);
  if (colors.gray) return img.select(-3, colors.red);
  const Tensor in = img.contiguous();
  Tensor out = at::empty_like(in.select(-3, 0), at::MemoryFormat::Contiguous);
  run(PixelPass{PixelOp::kLuma, in, out, colors});
  return out;
}

Tensor adjust_brightness(const Tensor& img, double factor) {
  static constexpr const char* kOp = "torch_ocl::adjust_brightness";
  check(img, kOp);
  return adjust(PixelOp::kBlend, img, colors_of(img, kOp, false), factor);
}

Tensor adjust_contrast(const Tensor& img, double factor) {
  static constexpr const char* kOp = "torch_ocl::adjust_contrast";
  const Shape shape = check(img, kOp);
  if (shape.empty()) return img.clone(at::MemoryFormat::Contiguous);
  return adjust(PixelOp::kBlend, img, colors_of(img, kOp), factor, mean_luma(img, shape));
}

Tensor adjust_saturation(const Tensor& img, double factor) {
  static constexpr const char* kOp = "torch_ocl::adjust_saturation";
  check(img, kOp);
  const Colors colors = colors_of(img, kOp);
  return colors.gray ? img.clone(at::MemoryFormat::Contiguous)
                     : adjust(PixelOp::kSaturate, img, colors, factor);
}

Tensor adjust_hue(const Tensor& img, double factor) {
  static constexpr const char* kOp = "torch_ocl::adjust_hue";
  check(img, kOp);
  const double turn = turn_of(img, factor);
  const Colors colors = colors_of(img, kOp);
  return colors.gray ? img.clone(at::MemoryFormat::Contiguous)
                     : adjust(PixelOp::kHue, img, colors, turn);
}

namespace {

// The gradient of the clamped base + factor * (img - base): zero where the result was clamped.
Tensor inside(const Tensor& grad, const Tensor& img, const Tensor& base, const Colors& colors,
              double factor) {
  const Tensor value = base + (img - base) * factor;
  const Tensor kept = value.ge(colors.low).logical_and_(value.le(colors.high));
  return grad * kept;
}

// Adds the gradient of a luminance to the gradients of its colours.
void add_luma(Tensor& result, const Tensor& of_luma, const Colors& colors) {
  const std::array<int, 3> places{colors.red, colors.green, colors.blue};
  for (size_t i = 0; i < (colors.gray ? 1 : 3); ++i) {
    result.select(-3, places[i]).add_(of_luma, colors.luma[i]);
  }
}

Tensor adjust_gray_backward(const Tensor& grad, const Tensor& img, AdjustOp op,
                            const Colors& colors, double factor) {
  const Shape shape = shape_of(img, "torch_ocl::adjust_backward");
  const bool contrast = op == AdjustOp::kContrast;
  Tensor base;
  if (contrast) {
    base = mean_luma(img, shape)
               .reshape(img.sizes().slice(0, img.dim() - 3))
               .unsqueeze(-1)
               .unsqueeze(-1);
    base = base.unsqueeze(-1);
  } else if (op == AdjustOp::kSaturation) {
    base = luma(img).unsqueeze(-3);
  } else {
    base = at::full({}, colors.low, img.options());
  }
  Tensor passed = inside(grad, img, base, colors, factor);
  if (colors.alpha >= 0) passed.select(-3, colors.alpha).zero_();
  Tensor result = passed * factor;
  if (contrast) {
    const Tensor sum = passed.sum({-3, -2, -1}, true).squeeze(-3);
    add_luma(result, sum * ((1 - factor) / static_cast<double>(shape.pixels())), colors);
  } else if (op == AdjustOp::kSaturation) {
    add_luma(result, passed.sum(-3) * (1 - factor), colors);
  }
  if (colors.alpha >= 0) {
    result.select(-3, colors.alpha).copy_(grad.select(-3, colors.alpha));
  }
  return result;
}

}  // namespace

Tensor adjust_backward(const Tensor& grad, const Tensor& img, int64_t kind, double factor) {
  static constexpr const char* kOp = "torch_ocl::adjust_backward";
  TORCH_CHECK_VALUE(0 <= kind && kind <= 3, kOp, ": op is ", kind, ", but must be 0 to 3");
  const auto op = static_cast<AdjustOp>(kind);
  check_gradient(grad, kOp);
  TORCH_CHECK_VALUE(grad.sizes() == img.sizes(), kOp, ": a gradient of shape ", grad.sizes(),
                    " for an image of shape ", img.sizes());
  const Colors colors = colors_of(img, kOp, op != AdjustOp::kBrightness);
  if (img.numel() == 0 ||
      (colors.gray && op != AdjustOp::kBrightness && op != AdjustOp::kContrast)) {
    return grad.clone(at::MemoryFormat::Contiguous);
  }
  if (op == AdjustOp::kHue) {
    expect_type(img, grad.scalar_type(), kOp);
    return adjust(PixelOp::kHueBackward, grad, colors, factor * 6, img.contiguous());
  }
  const ScalarType compute = arithmetic(img);
  return adjust_gray_backward(grad.to(compute), img.to(compute), op, colors, factor)
      .to(img.scalar_type())
      .contiguous();
}

}  // namespace ocl::image
