#include "kernels/image/image.h"

#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"

namespace ocl::image {

Shape shape_of(const Tensor& img, const char* op) {
  TORCH_CHECK_VALUE(img.dim() >= 3, op,
                    ": an image is [..., channels, height, width], but the tensor's shape is ",
                    img.sizes());
  const int64_t channels = img.size(-3), height = img.size(-2), width = img.size(-1);
  int64_t images = 1;
  for (int64_t d = 0; d + 3 < img.dim(); ++d) images *= img.size(d);
  return {images, channels, height, width};
}

std::vector<int64_t> resized(const Tensor& img, int64_t height, int64_t width) {
  std::vector<int64_t> sizes = img.sizes().vec();
  sizes[sizes.size() - 2] = height;
  sizes[sizes.size() - 1] = width;
  return sizes;
}

void check_type(const Tensor& img, const char* op) {
  TORCH_CHECK_TYPE(img.scalar_type() == ScalarType::Byte || img.is_floating_point(), op,
                   ": an image is uint8 or floating point, but the tensor is ", img.scalar_type(),
                   "; convert it with .to(torch.uint8) or .float()");
  if (img.is_privateuseone()) check_device_has(ocl_device(img), img.scalar_type(), op);
}

Interpolation interpolation_of(std::string_view name, const char* op) {
  if (name == "nearest") return Interpolation::kNearest;
  if (name == "bilinear") return Interpolation::kBilinear;
  if (name == "bicubic") return Interpolation::kBicubic;
  TORCH_CHECK_VALUE(false, op, ": interpolation is '", name,
                    "', but must be 'nearest', 'bilinear' or 'bicubic'");
}

std::pair<double, double> range_of(const Tensor& img) {
  if (const auto range = description_of(img).value_range) return *range;
  return {0, img.scalar_type() == ScalarType::Byte ? 255 : 1};
}

Colors colors_of(const Tensor& img, const char* op, bool needs_colors) {
  const ImageDescription said = description_of(img);
  const int64_t channels = img.size(-3);
  std::string order = said.channel_order;
  if (order.empty() && channels >= 1 && channels <= 4) {
    order = std::array{"L", "LA", "RGB", "RGBA"}[channels - 1];
  }
  const auto place = [&](char channel) { return static_cast<int>(order.find(channel)); };  // or -1
  Colors colors;
  colors.gray = order == "L" || order == "LA";
  const bool rgb = place('R') >= 0 && place('G') >= 0 && place('B') >= 0;
  const bool space =
      said.color_space.empty() || said.color_space == "sRGB" || said.color_space == "linear";
  TORCH_CHECK_VALUE(!needs_colors || (static_cast<size_t>(channels) == order.size() &&
                                      (colors.gray || rgb) && space),
                    op, ": expected a gray or RGB image with or without alpha, but the tensor's ",
                    "shape is ", img.sizes(), " and its description says color_space '",
                    said.color_space, "', channel_order '", said.channel_order, "'");
  if (rgb) colors.red = place('R'), colors.green = place('G'), colors.blue = place('B');
  colors.alpha = place('A');
  std::tie(colors.low, colors.high) = range_of(img);
  // The weights of the luminance in units of 2^-16: ITU-R BT.709 for linear light; ITU-R 601-2 for
  // sRGB values, as in Pillow.
  colors.luma = said.color_space == "linear" ? std::array<double, 3>{13933, 46871, 4732}
                                             : std::array<double, 3>{19595, 38470, 7471};
  for (double& weight : colors.luma) weight /= 65536;
  if (colors.gray) colors.luma = {1, 0, 0};
  return colors;
}

void check_box(at::IntArrayRef box) {
  TORCH_CHECK_VALUE(box.size() == 4, "torch_ocl::crop: box has ", box.size(),
                    " numbers, but must have four: (left, upper, right, lower)");
  constexpr int64_t kBeyond = int64_t{1} << 62;  // so that differences of positions fit
  for (const int64_t place : box) {
    TORCH_CHECK_VALUE(-kBeyond < place && place < kBeyond, "torch_ocl::crop: the box is ", box,
                      ", but must be between -2^62 and 2^62");
  }
  TORCH_CHECK_VALUE(box[0] <= box[2], "torch_ocl::crop: the box's right, ", box[2],
                    ", is less than its left, ", box[0]);
  TORCH_CHECK_VALUE(box[1] <= box[3], "torch_ocl::crop: the box's lower, ", box[3],
                    ", is less than its upper, ", box[1]);
}

void check_size(at::IntArrayRef size, const char* op) {
  TORCH_CHECK_VALUE(size.size() == 2 && size[0] > 0 && size[1] > 0, op, ": size is ", size,
                    ", but must be (height, width), both above 0");
  constexpr int64_t kBeyond = int64_t{1} << 31;
  TORCH_CHECK_VALUE(size[0] < kBeyond && size[1] < kBeyond, op, ": size is ", size,
                    ", but must be (height, width), both below 2^31");
}

Shape check_gradient(const Tensor& grad, const char* op) {
  const Shape shape = shape_of(grad, op);
  TORCH_CHECK_TYPE(grad.is_floating_point(), op, ": the gradient is ", grad.scalar_type(),
                   ", but must be floating point");
  check_type(grad, op);
  return shape;
}

void check_paste(const Tensor& im1, const Tensor& im2, at::IntArrayRef coord) {
  TORCH_CHECK_VALUE(coord.size() == 2, "torch_ocl::paste: coord has ", coord.size(),
                    " numbers, but must have two: (left, upper)");
  TORCH_CHECK_TYPE(im1.scalar_type() == im2.scalar_type(),
                   "torch_ocl::paste: the images are of different types, ", im1.scalar_type(),
                   " and ", im2.scalar_type());
  TORCH_CHECK(
      im1.device() == im2.device(),
      "torch_ocl::paste: Expected all tensors to be on the same device, but the images are ", "on ",
      im1.device(), " and ", im2.device());
  TORCH_CHECK_VALUE(im1.dim() == im2.dim() &&
                        im1.sizes().slice(0, im1.dim() - 2) == im2.sizes().slice(0, im2.dim() - 2),
                    "torch_ocl::paste: the images differ in more than height and width: their ",
                    "shapes are ", im1.sizes(), " and ", im2.sizes());
}

std::vector<double> per_channel(at::ArrayRef<double> values, int64_t channels, const char* what,
                                const char* op) {
  TORCH_CHECK_VALUE(values.size() == 1 || static_cast<int64_t>(values.size()) == channels, op, ": ",
                    what, " has ", values.size(),
                    " numbers, but must have one, or one for each of ", channels, " channels");
  if (values.size() == 1) return std::vector<double>(channels, values[0]);
  return values.vec();
}

}  // namespace ocl::image
