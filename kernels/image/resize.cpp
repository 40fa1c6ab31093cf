// resize and gaussian_blur: band matrices along rows, then along columns, as in Pillow.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "kernels/image/ops.h"
#include "kernels/image/passes.h"

namespace ocl::image {
namespace {

constexpr int kBoxes = 3;  // box blurs per Gaussian blur
constexpr double kGreatestRadius = 1e9;

// The type of the intermediate result: bytes, or the type of the arithmetic.
ScalarType between(const Tensor& img) {
  return img.scalar_type() == ScalarType::Byte ? ScalarType::Byte : arithmetic(img);
}

}  // namespace

Tensor apply_steps(const Tensor& img, const std::vector<Step>& steps) {
  Tensor in = img.contiguous();
  for (size_t i = 0; i < steps.size(); ++i) {
    const Band& band = *steps[i].band;
    const bool rows = steps[i].along == Along::kRows;
    const int64_t height = in.size(-2), width = in.size(-1);
    Tensor out =
        at::empty(rows ? resized(in, height, band.out_size) : resized(in, band.out_size, width),
                  in.options().dtype(i + 1 == steps.size() ? img.scalar_type() : between(img)));
    const int64_t outer = in.numel() / (rows ? width : width * height);
    run(BandPass{in, out, band, outer, rows ? 1 : width});
    in = out;
  }
  return in.is_same(img) ? img.clone(at::MemoryFormat::Contiguous) : in;
}

namespace {

Tensor resize_to(const Tensor& img, int64_t height, int64_t width, std::string_view interpolation,
                 bool antialias, bool backward) {
  static constexpr const char* kOp = "torch_ocl::resize";
  const Interpolation method = interpolation_of(interpolation, kOp);
  std::vector<Step> steps;
  const auto add = [&](int64_t from, int64_t to, Along along) {
    if (from == to) return;  // nothing to resize
    steps.push_back({backward ? resize_band(to, from, method, antialias, true)
                              : resize_band(from, to, method, antialias, false),
                     along});
  };
  const int64_t from_height = img.size(-2), from_width = img.size(-1);
  // Pillow processes rows first. Since version 13, it processes columns first for images that
  // shrink to a much smaller height.
  const int64_t lost = backward ? height - from_height : from_height - height;
  const int64_t lost_width = backward ? width - from_width : from_width - width;
  const bool columns_first = lost > 0 && lost > 2 * lost_width;
  if (columns_first) add(from_height, height, Along::kColumns);
  add(from_width, width, Along::kRows);
  if (!columns_first) add(from_height, height, Along::kColumns);
  if (backward) std::reverse(steps.begin(), steps.end());
  return apply_steps(img, steps);
}

Tensor nearest(const Tensor& img, int64_t height, int64_t width) {
  const auto positions = [](int64_t in, int64_t out) {
    return position_band(in, out, static_cast<double>(in) / static_cast<double>(out), 0);
  };
  const Shape shape = shape_of(img, "torch_ocl::resize");
  const BandPointer ys = positions(shape.height, height), xs = positions(shape.width, width);
  Tensor out = at::empty(resized(img, height, width), img.options());
  run(GatherPass{img.contiguous(), out, *ys, *xs, std::vector<double>(shape.channels)});
  return out;
}

std::vector<Step> blur_steps(const Tensor& img, at::ArrayRef<double> radius, bool backward) {
  TORCH_CHECK_VALUE(radius.size() == 1 || radius.size() == 2,
                    "torch_ocl::gaussian_blur: radius has ", radius.size(),
                    " numbers, but must have one, or two: (horizontal, vertical)");
  std::vector<Step> steps;
  const auto add = [&](double deviation, int64_t size, Along along) {
    TORCH_CHECK_VALUE(deviation >= 0 && deviation <= kGreatestRadius,
                      "torch_ocl::gaussian_blur: radius is ", deviation, ", but must be from 0 to ",
                      kGreatestRadius);
    if (deviation == 0) return;
    const float box = box_radius(static_cast<float>(deviation), kBoxes);
    for (int i = 0; i < kBoxes; ++i) steps.push_back({box_band(size, box, backward), along});
  };
  add(radius[0], img.size(-1), Along::kRows);
  add(radius.back(), img.size(-2), Along::kColumns);
  if (backward) std::reverse(steps.begin(), steps.end());
  return steps;
}

}  // namespace

Tensor resize(const Tensor& img, at::IntArrayRef size, std::string_view interpolation,
              bool antialias) {
  static constexpr const char* kOp = "torch_ocl::resize";
  const Shape shape = shape_of(img, kOp);
  check_type(img, kOp);
  check_size(size, kOp);
  TORCH_CHECK_VALUE(!shape.empty(), kOp, ": the image is empty: its shape is ", img.sizes());
  Tensor out = interpolation_of(interpolation, kOp) == Interpolation::kNearest
                   ? nearest(img, size[0], size[1])
                   : resize_to(img, size[0], size[1], interpolation, antialias, false);
  pass_description(img, out);
  return out;
}

Tensor resize_backward(const Tensor& grad, at::IntArrayRef size, std::string_view interpolation,
                       bool antialias) {
  static constexpr const char* kOp = "torch_ocl::_resize_backward";
  const Shape shape = check_gradient(grad, kOp);
  check_size(size, kOp);
  TORCH_CHECK_VALUE(!shape.empty(), kOp, ": the gradient is empty: its shape is ", grad.sizes());
  return resize_to(grad, size[0], size[1], interpolation, antialias, true);
}

Tensor gaussian_blur(const Tensor& img, at::ArrayRef<double> radius) {
  static constexpr const char* kOp = "torch_ocl::gaussian_blur";
  const Shape shape = shape_of(img, kOp);
  check_type(img, kOp);
  const std::vector<Step> steps = blur_steps(img, radius, false);
  Tensor out = shape.empty() ? img.clone(at::MemoryFormat::Contiguous) : apply_steps(img, steps);
  pass_description(img, out);
  return out;
}

Tensor gaussian_blur_backward(const Tensor& grad, at::ArrayRef<double> radius) {
  const Shape shape = check_gradient(grad, "torch_ocl::_gaussian_blur_backward");
  if (shape.empty()) return grad.clone(at::MemoryFormat::Contiguous);
  return apply_steps(grad, blur_steps(grad, radius, true));
}

}  // namespace ocl::image
