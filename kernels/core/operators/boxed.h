// Replaces the tensors in an argument or result of a boxed call.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace ocl {

// Returns the value with each tensor replaced by body(tensor). Handles tensors, lists of tensors
// and lists of optional tensors; returns other values unchanged.
template <typename Body>
c10::IValue replace_tensors(const c10::IValue& value, Body&& body) {
  if (value.isTensor()) return body(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& each : value.toTensorVector()) list.push_back(body(each));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& each : value.toOptionalTensorVector()) {
      list.push_back(each ? std::optional(body(*each)) : std::nullopt);
    }
    return list;
  }
  return value;
}

}  // namespace ocl
