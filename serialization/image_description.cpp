#include "serialization/image_description.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/serialization/pickler_helper.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "backend/base/printable.h"

namespace ocl {
namespace {

struct Meta final : c10::BackendMeta {
  explicit Meta(ImageDescription said) : description(std::move(said)) {}
  const ImageDescription description;
};

const Meta* meta_of(const at::TensorBase& tensor) {
  if (!tensor.is_privateuseone()) return nullptr;
  return dynamic_cast<const Meta*>(tensor.unsafeGetTensorImpl()->get_backend_meta());
}

// torch.save() stores a map from strings to booleans, so each value is a part of its key.
using Saved = std::unordered_map<std::string, bool>;
constexpr std::string_view kColorSpace = "torch_ocl.image.color_space=",
                           kChannelOrder = "torch_ocl.image.channel_order=",
                           kLow = "torch_ocl.image.low=", kHigh = "torch_ocl.image.high=";

std::string text(double number) {
  std::array<char, 32> digits;  // the shortest text that parses to the same number
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  return {digits.data(), end};
}

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// kNone if the text is not a number.
double number(std::string_view text) {
  double value = kNone;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : kNone;
}

constexpr const char* kColorSpaces[] = {"sRGB", "linear", "YCbCr", "HSV", "Lab"};
constexpr const char* kChannelOrders[] = {"L",    "LA",    "RGB", "BGR", "RGBA",
                                          "BGRA", "YCbCr", "HSV", "Lab"};

void check_name(const char* what, const std::string& name, std::span<const char* const> known) {
  TORCH_CHECK_VALUE(std::ranges::find(known, name) != known.end(), what, " is '", printable(name),
                    "', but must be one of '", c10::Join("', '", known), "'");
}

void check(const at::TensorBase& tensor, const ImageDescription& said) {
  if (!said.color_space.empty()) check_name("color_space", said.color_space, kColorSpaces);
  if (const std::string& order = said.channel_order; !order.empty()) {
    check_name("channel_order", order, kChannelOrders);
    const size_t channels = order == "YCbCr" ? 3 : order.size();
    TORCH_CHECK_VALUE(tensor.dim() >= 3 && tensor.size(-3) == static_cast<int64_t>(channels),
                      "channel_order '", order, "' has ", channels,
                      " channels, but the tensor's shape is (", c10::Join(", ", tensor.sizes()),
                      "): images are [..., channels, height, width]");
  }
  if (!said.value_range) return;
  const auto [low, high] = *said.value_range;
  TORCH_CHECK_VALUE(low < high, "value_range is (", low, ", ", high,
                    "), but black must be below white");
  TORCH_CHECK_VALUE(tensor.scalar_type() != at::kByte || (low >= 0 && high <= 255),
                    "value_range is (", low, ", ", high, "), but uint8 holds 0 to 255");
}

// Whether a property from a file is valid. Invalid ones are ignored.
bool is_right(const at::TensorBase& tensor, const ImageDescription& property) {
  try {
    check(tensor, property);
    return true;
  } catch (const c10::ValueError&) {
    return false;
  }
}

void save(const at::Tensor& tensor, Saved& saved) {
  const Meta* meta = meta_of(tensor);
  if (!meta) return;
  const auto add = [&](std::string_view key, const std::string& value) {
    saved[std::string(key) + value] = true;
  };
  const ImageDescription& said = meta->description;
  if (!said.color_space.empty()) add(kColorSpace, said.color_space);
  if (!said.channel_order.empty()) add(kChannelOrder, said.channel_order);
  if (said.value_range) {
    add(kLow, text(said.value_range->first));
    add(kHigh, text(said.value_range->second));
  }
}

void load(const at::Tensor& tensor, Saved& saved) {
  ImageDescription said;
  std::pair<double, double> range{kNone, kNone};
  for (const auto& [entry, flag] : saved) {
    const std::string_view line = entry;
    const auto value_of = [&](std::string_view key) {
      return line.starts_with(key) ? std::optional(line.substr(key.size())) : std::nullopt;
    };
    if (const auto value = value_of(kColorSpace)) said.color_space = *value;
    if (const auto value = value_of(kChannelOrder)) said.channel_order = *value;
    if (const auto value = value_of(kLow)) range.first = number(*value);
    if (const auto value = value_of(kHigh)) range.second = number(*value);
  }
  if (!is_right(tensor, {said.color_space, "", {}})) said.color_space.clear();
  if (!is_right(tensor, {"", said.channel_order, {}})) said.channel_order.clear();
  if (is_right(tensor, {"", "", range})) said.value_range = range;
  if (!said.empty()) describe(tensor, std::move(said));
}

const bool registered =
    (torch::jit::TensorBackendMetaRegistry(c10::DeviceType::PrivateUse1, save, load), true);

}  // namespace

std::span<const char* const> color_spaces() { return kColorSpaces; }
std::span<const char* const> channel_orders() { return kChannelOrders; }

ImageDescription description_of(const at::TensorBase& tensor) {
  const Meta* meta = meta_of(tensor);
  return meta ? meta->description : ImageDescription();
}

void describe(const at::TensorBase& tensor, ImageDescription description) {
  TORCH_CHECK_VALUE(tensor.is_privateuseone(),
                    "only ocl tensors carry an image description, but this one is on ",
                    tensor.device(), "; move it with .to(\"ocl\") first");
  check(tensor, description);
  tensor.unsafeGetTensorImpl()->set_backend_meta(
      description.empty() ? nullptr : c10::make_intrusive<Meta>(std::move(description)));
}

void pass_description(const at::TensorBase& from, const at::TensorBase& to) {
  if (meta_of(from) && to.is_privateuseone()) {
    to.unsafeGetTensorImpl()->set_backend_meta(
        from.unsafeGetTensorImpl()->get_backend_meta_intrusive_ptr());
  }
}

}  // namespace ocl
