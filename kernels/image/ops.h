// The image operators below autograd. ocl and the CPU share this code, which calls the passes of
// passes.h.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/image/image.h"

namespace ocl::image {

Tensor crop(const Tensor& pic, at::IntArrayRef box);
Tensor paste(const Tensor& im1, const Tensor& im2, at::IntArrayRef coord);
Tensor flip(const Tensor& img, bool horizontal, bool vertical);
Tensor resize(const Tensor& img, at::IntArrayRef size, std::string_view interpolation,
              bool antialias);
Tensor resize_backward(const Tensor& grad, at::IntArrayRef size, std::string_view interpolation,
                       bool antialias);
Tensor gaussian_blur(const Tensor& img, at::ArrayRef<double> radius);
Tensor gaussian_blur_backward(const Tensor& grad, at::ArrayRef<double> radius);
Tensor affine(const Tensor& img, at::ArrayRef<double> matrix, at::OptionalIntArrayRef size,
              std::string_view interpolation, std::optional<at::ArrayRef<double>> fill);
Tensor affine_backward(const Tensor& grad, at::ArrayRef<double> matrix, at::IntArrayRef size,
                       std::string_view interpolation);
Tensor normalize(const Tensor& img, at::ArrayRef<double> mean, at::ArrayRef<double> std);
Tensor normalize_backward(const Tensor& grad, const Tensor& img, at::ArrayRef<double> std);
// [..., height, width]: gray, as PIL's convert("L") has it.
Tensor luma(const Tensor& img);
Tensor adjust_brightness(const Tensor& img, double factor);
Tensor adjust_contrast(const Tensor& img, double factor);
Tensor adjust_saturation(const Tensor& img, double factor);
Tensor adjust_hue(const Tensor& img, double factor);

enum class AdjustOp { kBrightness, kContrast, kSaturation, kHue };
Tensor adjust_backward(const Tensor& grad, const Tensor& img, int64_t op, double factor);

}  // namespace ocl::image
