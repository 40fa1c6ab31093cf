#include "serialization/image_description.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/serialization/pickler_helper.h>

#include <array>
#include <charconv>
#include <string_view>
#include <unordered_map>

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

// The map that torch saves holds only flags, so the values are in the keys.
using Saved = std::unordered_map<std::string, bool>;
constexpr std::string_view kColorSpace = "torch_ocl.image.color_space=",
                           kChannelOrder = "torch_ocl.image.channel_order=",
                           kLow = "torch_ocl.image.low=", kHigh = "torch_ocl.image.high=";

std::string text(double number) {
  std::array<char, 32> digits;  // the shortest text that reads back as the same number
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  return {digits.data(), end};
}

double number(std::string_view text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
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
  std::pair<double, double> range;
  bool ranged = false;
  for (const auto& [entry, flag] : saved) {
    const std::string_view line = entry;
    const auto value_of = [&](std::string_view key) {
      return line.starts_with(key) ? std::optional(line.substr(key.size())) : std::nullopt;
    };
    if (const auto value = value_of(kColorSpace)) said.color_space = *value;
    if (const auto value = value_of(kChannelOrder)) said.channel_order = *value;
    if (const auto value = value_of(kLow)) range.first = number(*value);
    if (const auto value = value_of(kHigh)) range.second = number(*value), ranged = true;
  }
  if (ranged) said.value_range = range;
  if (!said.empty()) describe(tensor, std::move(said));
}

const bool registered =
    (torch::jit::TensorBackendMetaRegistry(c10::DeviceType::PrivateUse1, save, load), true);

}  // namespace

ImageDescription description_of(const at::TensorBase& tensor) {
  const Meta* meta = meta_of(tensor);
  return meta ? meta->description : ImageDescription();
}

void describe(const at::TensorBase& tensor, ImageDescription description) {
  TORCH_CHECK_VALUE(tensor.is_privateuseone(),
                    "only ocl tensors carry an image description, but this one is on ",
                    tensor.device(), "; move it with .to(\"ocl\") first");
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
