// Decides whether `tensor.data = other` is allowed, also across devices. Module.to() asks the same,
// and if it is allowed, gives parameters new data instead of creating new parameters.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace ocl {
namespace {

// Strided tensors of these devices are the same C++ class.
bool is_dense(c10::DispatchKeySet keys) {
  using c10::BackendComponent;
  constexpr c10::DispatchKeySet devices({BackendComponent::CPUBit, BackendComponent::CUDABit,
                                         BackendComponent::XPUBit,
                                         BackendComponent::PrivateUse1Bit});
  return keys.has_any(c10::DispatchKeySet(c10::DispatchKey::Dense)) && keys.has_any(devices);
}

bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  // PyTorch's rule leaves this device out.
  return (is_dense(self.key_set()) && is_dense(from.key_set())) ||
         self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", &has_compatible_shallow_copy_type);
}

// Registered so that it runs before Python subclasses see the call, because PyTorch's operator is
// composite and does not call them.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", &has_compatible_shallow_copy_type);
}

}  // namespace
}  // namespace ocl
