// Which tensors `tensor.data = other` takes, also of another device. Modules that move ask the
// same, and then give their parameters new data rather than make new parameters.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace ocl {
namespace {

// Strided tensors of these devices have the same members.
bool is_dense(c10::DispatchKeySet keys) {
  using c10::BackendComponent;
  constexpr c10::DispatchKeySet devices({BackendComponent::CPUBit, BackendComponent::CUDABit,
                                         BackendComponent::XPUBit,
                                         BackendComponent::PrivateUse1Bit});
  return keys.has_any(c10::DispatchKeySet(c10::DispatchKey::Dense)) && keys.has_any(devices);
}

bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  // PyTorch's own rule does not know this device.
  return (is_dense(self.key_set()) && is_dense(from.key_set())) ||
         self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", &has_compatible_shallow_copy_type);
}

// Before subclasses in Python see the call: PyTorch's operator, which is composite, asks none.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", &has_compatible_shallow_copy_type);
}

}  // namespace
}  // namespace ocl
