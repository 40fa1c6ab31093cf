// The description of the image in an ocl tensor. It is c10::BackendMeta, so that torch.save, clone
// and copies between devices keep it.
#pragma once

#include <ATen/core/TensorBase.h>

#include <optional>
#include <span>
#include <string>
#include <utility>

namespace ocl {

struct ImageDescription {
  std::string color_space;                               // one of color_spaces(); empty: unknown
  std::string channel_order;                             // one of channel_orders(); empty: unknown
  std::optional<std::pair<double, double>> value_range;  // (black, white)

  bool empty() const { return color_space.empty() && channel_order.empty() && !value_range; }
  bool operator==(const ImageDescription&) const = default;
};

// All known names.
std::span<const char* const> color_spaces();
std::span<const char* const> channel_orders();

// The description of a tensor; empty if it has none.
ImageDescription description_of(const at::TensorBase& tensor);

// Replaces the description of an ocl tensor; an empty one removes it. Raises ValueError for unknown
// names, for a channel order of another number of channels, and for a range that is empty or holds
// numbers outside of uint8.
void describe(const at::TensorBase& tensor, ImageDescription description);

// Copies the description of `from` to `to`, if `from` has one and both are ocl tensors.
void pass_description(const at::TensorBase& from, const at::TensorBase& to);

}  // namespace ocl
