// Checks, shapes and colours for all image operators. Images are tensors [..., channels, height,
// width].
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <string_view>

#include "serialization/image_description.h"

namespace ocl::image {

using at::ScalarType;
using at::Tensor;

struct Shape {
  int64_t images, channels, height, width;
  int64_t pixels() const { return height * width; }
  bool empty() const { return images * channels * height * width == 0; }
};

// Raises an error unless `img` has at least three dimensions.
Shape shape_of(const Tensor& img, const char* op);

// `img`'s shape with another height and width.
std::vector<int64_t> resized(const Tensor& img, int64_t height, int64_t width);

// Raises an error unless `img` is uint8 or floating point, and (on ocl) of a type the device has.
void check_type(const Tensor& img, const char* op);

enum class Interpolation { kNearest, kBilinear, kBicubic };
Interpolation interpolation_of(std::string_view name, const char* op);

// The indices of the colours' channels, and the values of black (`low`) and white (`high`). They
// come from the image's description, or else from the number of channels and the type.
struct Colors {
  int red = 0, green = 0, blue = 0;  // all 0 for gray
  int alpha = -1;                    // -1: there is none
  bool gray = false;
  double low = 0, high = 1;
  std::array<double, 3> luma{};  // weights of red, green and blue
};

// Raises an error if the image lacks colours that the operator needs.
Colors colors_of(const Tensor& img, const char* op, bool needs_colors = true);

// The range of values in the description; without one (0, 255) for uint8, else (0, 1).
std::pair<double, double> range_of(const Tensor& img);

// Checks that the operators share with their Meta kernels, so that errors do not depend on the
// device.
void check_box(at::IntArrayRef box);
void check_size(at::IntArrayRef size, const char* op);
// The shape of an operator's gradient, which is a floating-point image.
Shape check_gradient(const Tensor& grad, const char* op);
void check_paste(const Tensor& im1, const Tensor& im2, at::IntArrayRef coord);

// Expands one number for all channels to one per channel.
std::vector<double> per_channel(at::ArrayRef<double> values, int64_t channels, const char* what,
                                const char* op);

}  // namespace ocl::image
