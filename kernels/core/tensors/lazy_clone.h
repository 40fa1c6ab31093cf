// Tensor._lazy_clone: tensors share memory until one of them is written. Before PyTorch 2.13 it
// raises.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "backend/base/torch_version.h"

namespace ocl {

// Call before a write: gives a tensor that shares memory with lazy clones memory of its own. The
// wrappers of operators call this (codegen/generate.py), because kernels use const_data_ptr(),
// which does not.
inline void own_memory([[maybe_unused]] const at::TensorBase& tensor) {
#if OCL_HAS_LAZY_CLONES
  if (!tensor.defined() || !tensor.has_storage()) return;
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  if (C10_UNLIKELY(storage->has_materializer())) storage->mutable_data_ptr();
#endif
}
inline void own_memory(const std::optional<at::Tensor>& tensor) {
  if (tensor) own_memory(*tensor);
}
inline void own_memory(at::TensorList tensors) {
  for (const at::Tensor& tensor : tensors) own_memory(tensor);
}

}  // namespace ocl
