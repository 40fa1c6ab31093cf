// Operators that keep a tensor's description (serialization/): they call PyTorch's implementation,
// then copy the description to the result. detach() and aliases keep it anyway.
#include <ATen/ops/_to_copy_native.h>
#include <ATen/ops/clone_native.h>
#include <ATen/ops/new_empty_native.h>
#include <torch/library.h>

#include "serialization/image_description.h"

namespace ocl {
namespace {

using at::Tensor;

Tensor clone(const Tensor& self, std::optional<at::MemoryFormat> format) {
  Tensor out = at::native::clone(self, format);
  pass_description(self, out);
  return out;
}

Tensor to_copy(const Tensor& self, std::optional<at::ScalarType> dtype,
               std::optional<at::Layout> layout, std::optional<at::Device> device,
               std::optional<bool> pin_memory, bool non_blocking,
               std::optional<at::MemoryFormat> format) {
  Tensor out = at::native::_to_copy(self, dtype, layout, device, pin_memory, non_blocking, format);
  pass_description(self, out);
  return out;
}

// Tensor.__deepcopy__ calls new_empty([]) and sets the copied storage on the result, so a result
// without dimensions keeps the description. Images have dimensions, so nothing else is affected.
Tensor new_empty(const Tensor& self, c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> layout, std::optional<at::Device> device,
                 std::optional<bool> pin_memory) {
  Tensor out = at::native::new_empty_symint(self, size, dtype, layout, device, pin_memory);
  if (size.empty()) pass_description(self, out);
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("clone", &clone);
  m.impl("_to_copy", &to_copy);
  m.impl("new_empty", &new_empty);
}

}  // namespace
}  // namespace ocl
