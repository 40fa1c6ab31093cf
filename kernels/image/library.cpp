// The operators torch.ops.torch_ocl.*: schemas, kernels on ocl and the CPU, and rotate, which calls
// the others.
#include <ATen/ops/rot90.h>
#include <torch/library.h>

#include <cmath>
#include <numbers>

#include "kernels/image/ops.h"

namespace ocl::image {
namespace {

// The matrix of PIL.Image.rotate: `angle` degrees counter-clockwise around the centre, then a
// shift.
std::array<double, 6> rotation(double angle, std::array<double, 2> center,
                               std::array<double, 2> moved) {
  // Rounded as in Pillow, so that right angles have whole numbers.
  const auto rounded = [](double value) { return std::round(value * 1e15) / 1e15; };
  const double radians = -angle * std::numbers::pi / 180;
  const double cosine = rounded(std::cos(radians)), sine = rounded(std::sin(radians));
  const double x = -center[0] - moved[0], y = -center[1] - moved[1];
  return {cosine, sine,   cosine * x + sine * y + center[0],
          -sine,  cosine, -sine * x + cosine * y + center[1]};
}

void check_finite(double number, const char* what) {
  TORCH_CHECK_VALUE(std::isfinite(number), "torch_ocl::rotate: ", what, " is ", number,
                    ", but must be finite");
}

std::array<double, 2> pair_of(std::optional<at::ArrayRef<double>> given,
                              std::array<double, 2> otherwise, const char* what) {
  if (!given) return otherwise;
  TORCH_CHECK_VALUE(given->size() == 2, "torch_ocl::rotate: ", what, " has ", given->size(),
                    " numbers, but must have two: (x, y)");
  for (const double number : *given) check_finite(number, what);
  return {(*given)[0], (*given)[1]};
}

Tensor call_affine(const Tensor& img, at::ArrayRef<double> matrix, at::OptionalIntArrayRef size,
                   std::string_view interpolation, std::optional<at::ArrayRef<double>> fill) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("torch_ocl::affine", "")
                             .typed<decltype(affine)>();
  return op.call(img, matrix, size, interpolation, fill);
}

Tensor rotate(const Tensor& img, double angle, std::string_view interpolation, bool expand,
              std::optional<at::ArrayRef<double>> center,
              std::optional<at::ArrayRef<double>> translate,
              std::optional<at::ArrayRef<double>> fill) {
  TORCH_CHECK_VALUE(
      img.dim() >= 3,
      "torch_ocl::rotate: an image is [..., channels, height, width], but the tensor ", "has ",
      img.dim(), " dimensions");
  interpolation_of(interpolation, "torch_ocl::rotate");
  const int64_t height = img.sym_size(-2).guard_int(__FILE__, __LINE__);
  const int64_t width = img.sym_size(-1).guard_int(__FILE__, __LINE__);
  check_finite(angle, "angle");
  angle = std::fmod(angle, 360.0);
  if (angle < 0) angle += 360;
  if (!center && !translate) {
    // Quarter turns are exact for any interpolation.
    const int64_t quarters = static_cast<int64_t>(angle / 90);
    if (quarters * 90.0 == angle && (quarters % 2 == 0 || expand || width == height)) {
      Tensor turned = at::rot90(img, quarters, {-2, -1}).clone(at::MemoryFormat::Contiguous);
      pass_description(img, turned);
      return turned;
    }
  }
  std::array<double, 6> m = rotation(angle, pair_of(center, {width / 2.0, height / 2.0}, "center"),
                                     pair_of(translate, {0, 0}, "translate"));
  std::array<int64_t, 2> size{height, width};
  if (expand) {
    double left = INFINITY, right = -INFINITY, top = INFINITY, bottom = -INFINITY;
    for (const double x : {0.0, static_cast<double>(width)}) {
      for (const double y : {0.0, static_cast<double>(height)}) {
        const double tx = m[0] * x + m[1] * y + m[2], ty = m[3] * x + m[4] * y + m[5];
        left = std::min(left, tx), right = std::max(right, tx);
        top = std::min(top, ty), bottom = std::max(bottom, ty);
      }
    }
    const double rows = std::ceil(bottom) - std::floor(top);
    const double columns = std::ceil(right) - std::floor(left);
    TORCH_CHECK_VALUE(rows >= 0 && rows < 0x1p63 && columns >= 0 && columns < 0x1p63,
                      "torch_ocl::rotate: center or translate are too far away for expand");
    size = {static_cast<int64_t>(rows), static_cast<int64_t>(columns)};
    const double x = -(size[1] - width) / 2.0, y = -(size[0] - height) / 2.0;
    m[2] += m[0] * x + m[1] * y;
    m[5] += m[3] * x + m[4] * y;
  }
  return call_affine(img, m, at::OptionalIntArrayRef(size), interpolation, fill);
}

TORCH_LIBRARY(torch_ocl, m) {
  m.def("crop(Tensor pic, SymInt[] box) -> Tensor");
  m.def("paste(Tensor im1, Tensor im2, SymInt[] coord) -> Tensor");
  m.def("flip(Tensor img, bool horizontal=True, bool vertical=False) -> Tensor");
  m.def(
      "resize(Tensor img, SymInt[] size, str interpolation=\"bicubic\", bool antialias=True)"
      " -> Tensor");
  m.def(
      "rotate(Tensor img, float angle, str interpolation=\"nearest\", bool expand=False,"
      " float[]? center=None, float[]? translate=None, float[]? fill=None) -> Tensor",
      &rotate);
  m.def(
      "affine(Tensor img, float[] matrix, SymInt[]? size=None, str interpolation=\"nearest\","
      " float[]? fill=None) -> Tensor");
  m.def("normalize(Tensor img, float[] mean, float[] std) -> Tensor");
  m.def("gaussian_blur(Tensor img, float[] radius) -> Tensor");
  m.def("adjust_brightness(Tensor img, float factor) -> Tensor");
  m.def("adjust_contrast(Tensor img, float factor) -> Tensor");
  m.def("adjust_saturation(Tensor img, float factor) -> Tensor");
  m.def("adjust_hue(Tensor img, float factor) -> Tensor");
  // Derivatives, which are not public operators.
  m.def(
      "_resize_backward(Tensor grad, SymInt[] size, str interpolation, bool antialias) -> Tensor");
  m.def(
      "_affine_backward(Tensor grad, float[] matrix, SymInt[] size, str interpolation) -> Tensor");
  m.def("_normalize_backward(Tensor grad, Tensor img, float[] std) -> Tensor");
  m.def("_gaussian_blur_backward(Tensor grad, float[] radius) -> Tensor");
  m.def("_adjust_backward(Tensor grad, Tensor img, int op, float factor) -> Tensor");
}

void register_kernels(torch::Library& m) {
  m.impl("crop", &crop);
  m.impl("paste", &paste);
  m.impl("flip", &flip);
  m.impl("resize", &resize);
  m.impl("_resize_backward", &resize_backward);
  m.impl("affine", &affine);
  m.impl("_affine_backward", &affine_backward);
  m.impl("normalize", &normalize);
  m.impl("_normalize_backward", &normalize_backward);
  m.impl("gaussian_blur", &gaussian_blur);
  m.impl("_gaussian_blur_backward", &gaussian_blur_backward);
  m.impl("adjust_brightness", &adjust_brightness);
  m.impl("adjust_contrast", &adjust_contrast);
  m.impl("adjust_saturation", &adjust_saturation);
  m.impl("adjust_hue", &adjust_hue);
  m.impl("_adjust_backward", &adjust_backward);
}

TORCH_LIBRARY_IMPL(torch_ocl, PrivateUse1, m) { register_kernels(m); }
TORCH_LIBRARY_IMPL(torch_ocl, CPU, m) { register_kernels(m); }

}  // namespace
}  // namespace ocl::image
