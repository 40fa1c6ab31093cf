// crop, paste, flip and affine transforms, with Pillow's semantics.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "kernels/image/ops.h"
#include "kernels/image/passes.h"

namespace ocl::image {
namespace {

// The part of a box [left, right) that lies in [0, size).
struct Span {
  int64_t from, to;
  Span(int64_t left, int64_t right, int64_t size)
      : from(std::clamp<int64_t>(left, 0, size)), to(std::clamp<int64_t>(right, from, size)) {}
  int64_t size() const { return to - from; }
};

// The part of `length` pixels from `at` on. If `at` is far outside, its end may overflow int64.
Span span_of(int64_t at, int64_t length, int64_t size) {
  at = std::clamp(at, -length, size);
  return {at, at + length, size};
}

Tensor part(const Tensor& img, const Span& x, const Span& y) {
  return img.narrow(-2, y.from, y.size()).narrow(-1, x.from, x.size());
}

std::vector<double> fills(std::optional<at::ArrayRef<double>> fill, const Tensor& img,
                          const char* op) {
  const int64_t channels = img.size(-3);
  if (!fill) return std::vector<double>(channels, 0.0);
  for (const double number : *fill) {
    TORCH_CHECK_VALUE(img.scalar_type() != ScalarType::Byte || (number >= 0 && number <= 255), op,
                      ": fill is ", number, ", but uint8 holds 0 to 255");
  }
  return per_channel(*fill, channels, "fill", op);
}

// Whether the tables of the transposed bands are small. They have a weight for each input pixel,
// times the most outputs that a pixel has.
bool fits_bands(const std::array<double, 6>& a, const Tensor& grad, at::IntArrayRef size) {
  constexpr double kMostOutputs = 64;
  constexpr int64_t kSmallTable = int64_t{1} << 22;
  return std::min(std::abs(a[0]), std::abs(a[4])) * kMostOutputs >= 1 ||
         std::max(size[0] * grad.size(-2), size[1] * grad.size(-1)) <= kSmallTable;
}

// Whether rows and columns can be scaled one after the other.
bool scales(const std::array<double, 6>& matrix, Interpolation interpolation) {
  return interpolation == Interpolation::kNearest && matrix[1] == 0 && matrix[3] == 0;
}

std::array<double, 6> matrix_of(at::ArrayRef<double> matrix) {
  TORCH_CHECK_VALUE(matrix.size() == 6, "torch_ocl::affine: matrix has ", matrix.size(),
                    " numbers, but must have six: (a, b, c, d, e, f) takes the output's (x, y) to ",
                    "the input's (a x + b y + c, d x + e y + f)");
  for (const double number : matrix) {
    TORCH_CHECK_VALUE(std::isfinite(number), "torch_ocl::affine: matrix holds ", number,
                      ", but must hold finite numbers");
  }
  std::array<double, 6> result;
  std::copy(matrix.begin(), matrix.end(), result.begin());
  return result;
}

void check_descriptions(const Tensor& im1, const Tensor& im2) {
  const ImageDescription a = description_of(im1), b = description_of(im2);
  const auto check = [](const char* what, const std::string& first, const std::string& second) {
    TORCH_CHECK_VALUE(first.empty() || second.empty() || first == second, "torch_ocl::paste: the ",
                      what, " of the two images differ: '", first, "' and '", second, "'");
  };
  check("color spaces", a.color_space, b.color_space);
  check("channel orders", a.channel_order, b.channel_order);
  TORCH_CHECK_VALUE(!a.value_range || !b.value_range || a.value_range == b.value_range,
                    "torch_ocl::paste: the value ranges of the two images differ: (",
                    a.value_range->first, ", ", a.value_range->second, ") and (",
                    b.value_range->first, ", ", b.value_range->second, ")");
}

}  // namespace

Tensor crop(const Tensor& pic, at::IntArrayRef box) {
  const Shape shape = shape_of(pic, "torch_ocl::crop");
  check_box(box);
  const Span x(box[0], box[2], shape.width), y(box[1], box[3], shape.height);
  const int64_t width = box[2] - box[0], height = box[3] - box[1];
  Tensor out;
  if (x.size() == width && y.size() == height) {
    out = part(pic, x, y).clone(at::MemoryFormat::Contiguous);
  } else {
    out = at::zeros(resized(pic, height, width), pic.options());
    if (x.size() > 0 && y.size() > 0) {
      out.narrow(-2, y.from - box[1], y.size())
          .narrow(-1, x.from - box[0], x.size())
          .copy_(part(pic, x, y));
    }
  }
  pass_description(pic, out);
  return out;
}

Tensor paste(const Tensor& im1, const Tensor& im2, at::IntArrayRef coord) {
  const Shape onto = shape_of(im1, "torch_ocl::paste"), from = shape_of(im2, "torch_ocl::paste");
  check_paste(im1, im2, coord);
  check_descriptions(im1, im2);
  const Span x = span_of(coord[0], from.width, onto.width);
  const Span y = span_of(coord[1], from.height, onto.height);
  Tensor out = im1.clone(at::MemoryFormat::Contiguous);
  if (x.size() > 0 && y.size() > 0) {
    part(out, x, y).copy_(
        im2.narrow(-2, y.from - coord[1], y.size()).narrow(-1, x.from - coord[0], x.size()));
  }
  return out;
}

Tensor flip(const Tensor& img, bool horizontal, bool vertical) {
  shape_of(img, "torch_ocl::flip");
  std::vector<int64_t> dims;
  if (vertical) dims.push_back(-2);
  if (horizontal) dims.push_back(-1);
  Tensor out = img.contiguous().flip(dims);
  pass_description(img, out);
  return out;
}

Tensor affine(const Tensor& img, at::ArrayRef<double> matrix, at::OptionalIntArrayRef size,
              std::string_view interpolation, std::optional<at::ArrayRef<double>> fill) {
  static constexpr const char* kOp = "torch_ocl::affine";
  const Shape shape = shape_of(img, kOp);
  check_type(img, kOp);
  if (size) check_size(*size, kOp);
  const int64_t height = size ? (*size)[0] : shape.height, width = size ? (*size)[1] : shape.width;
  const Tensor in = img.contiguous();
  Tensor out = at::empty(resized(img, height, width), img.options());
  pass_description(img, out);
  const AffinePass pass{in, out, matrix_of(matrix), interpolation_of(interpolation, kOp),
                        fills(fill, img, kOp)};
  const auto& a = pass.matrix;
  if (shape.empty()) {
    TORCH_CHECK_VALUE(out.numel() == 0, kOp, ": the image is empty: its shape is ", img.sizes());
  } else if (scales(a, pass.interpolation)) {
    const BandPointer xs = position_band(shape.width, width, a[0], a[2]);
    const BandPointer ys = position_band(shape.height, height, a[4], a[5]);
    run(GatherPass{in, out, *ys, *xs, pass.fill});
  } else {
    run(pass);
  }
  return out;
}

Tensor affine_backward(const Tensor& grad, at::ArrayRef<double> matrix, at::IntArrayRef size,
                       std::string_view interpolation) {
  static constexpr const char* kOp = "torch_ocl::_affine_backward";
  const Shape shape = check_gradient(grad, kOp);
  if (!shape.empty()) check_size(size, kOp);
  TORCH_CHECK_VALUE(size.size() == 2, kOp, ": size is ", size, ", but must be (height, width)");
  const std::array<double, 6> a = matrix_of(matrix);
  const Interpolation method = interpolation_of(interpolation, "torch_ocl::affine");
  if (scales(a, method) && !shape.empty() && fits_bands(a, grad, size)) {
    return apply_steps(
        grad, {{position_band(size[1], grad.size(-1), a[0], a[2], true), Along::kRows},
               {position_band(size[0], grad.size(-2), a[4], a[5], true), Along::kColumns}});
  }
  // On the CPU, sums are accumulated in the gradient itself.
  const bool widen = grad.is_cpu() && grad.scalar_type() != ScalarType::Double;
  const Tensor in = (widen ? grad.to(ScalarType::Float) : grad).contiguous();
  const Tensor out = at::empty(resized(grad, size[0], size[1]), in.options());
  if (in.numel() == 0) return out.zero_();
  run(AffinePass{in, out, a, method, {}, true});
  return out.to(grad.scalar_type());
}

}  // namespace ocl::image
