// Shapes and types of the image operators' results, for tracing. Sizes may be symbolic.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "kernels/image/image.h"

namespace ocl::image {
namespace {

using c10::SymInt;

Tensor like(const Tensor& img) { return at::empty_like(img, at::MemoryFormat::Contiguous); }

Tensor with_size(const Tensor& img, const SymInt& height, const SymInt& width) {
  TORCH_CHECK_VALUE(img.dim() >= 3,
                    "an image is [..., channels, height, width], but the tensor has ", img.dim(),
                    " dimensions");
  auto sizes = img.sym_sizes().vec();
  sizes[sizes.size() - 2] = height;
  sizes[sizes.size() - 1] = width;
  return at::empty_symint(sizes, img.options());
}

Tensor crop(const Tensor& pic, c10::SymIntArrayRef box) {
  if (const auto known = c10::asIntArrayRefSlowOpt(box)) check_box(*known);
  return with_size(pic, box[3] - box[1], box[2] - box[0]);
}

Tensor paste(const Tensor& im1, const Tensor& im2, c10::SymIntArrayRef coord) { return like(im1); }
Tensor flip(const Tensor& img, bool, bool) { return like(img); }

Tensor resize(const Tensor& img, c10::SymIntArrayRef size, std::string_view interpolation, bool) {
  interpolation_of(interpolation, "torch_ocl::resize");
  return with_size(img, size[0], size[1]);
}

Tensor affine(const Tensor& img, at::ArrayRef<double>, at::OptionalSymIntArrayRef size,
              std::string_view interpolation, std::optional<at::ArrayRef<double>>) {
  interpolation_of(interpolation, "torch_ocl::affine");
  return size ? with_size(img, (*size)[0], (*size)[1]) : like(img);
}

Tensor affine_backward(const Tensor& grad, at::ArrayRef<double>, c10::SymIntArrayRef size,
                       std::string_view) {
  return with_size(grad, size[0], size[1]);
}

Tensor gaussian_blur(const Tensor& img, at::ArrayRef<double>) { return like(img); }

Tensor normalize(const Tensor& img, at::ArrayRef<double>, at::ArrayRef<double>) {
  return img.scalar_type() == ScalarType::Byte
             ? at::empty_symint(img.sym_sizes(), img.options().dtype(ScalarType::Float))
             : like(img);
}

Tensor normalize_backward(const Tensor& grad, const Tensor&, at::ArrayRef<double>) {
  return like(grad);
}

Tensor adjust(const Tensor& img, double) { return like(img); }
Tensor adjust_backward(const Tensor&, const Tensor& img, int64_t, double) { return like(img); }

TORCH_LIBRARY_IMPL(torch_ocl, Meta, m) {
  m.impl("crop", &crop);
  m.impl("paste", &paste);
  m.impl("flip", &flip);
  m.impl("resize", &resize);
  m.impl("_resize_backward", &resize);
  m.impl("affine", &affine);
  m.impl("_affine_backward", &affine_backward);
  m.impl("gaussian_blur", &gaussian_blur);
  m.impl("_gaussian_blur_backward", &gaussian_blur);
  m.impl("normalize", &normalize);
  m.impl("_normalize_backward", &normalize_backward);
  m.impl("adjust_brightness", &adjust);
  m.impl("adjust_contrast", &adjust);
  m.impl("adjust_saturation", &adjust);
  m.impl("adjust_hue", &adjust);
  m.impl("_adjust_backward", &adjust_backward);
}

}  // namespace
}  // namespace ocl::image
