// Storages of tensors: holds on their size, and a check that a tensor lies within its storage.
#pragma once

#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>

#include <memory>

namespace ocl {

// Keeps a storage alive and forbids resizing it, as after Tensor.numpy(), while code outside of
// torch has its address. To keep a tensor is not enough: `x.data = other` and `x.set_(other)` give
// it another storage, and Storage.resize_() gives the storage other memory.
using StorageHold = std::shared_ptr<const c10::Storage>;
StorageHold hold_storage(const c10::Storage& storage);

// Forbids resizing a storage from now on. For storages from files: sizes in the file could make it
// grow.
void fix_storage_size(const c10::Storage& storage);

// Another tensor over the same memory.
inline c10::intrusive_ptr<c10::TensorImpl> alias(const c10::TensorImpl& tensor) {
  return tensor.shallow_copy_and_detach(tensor.version_counter(),
                                        /*allow_tensor_metadata_change=*/false);
}

// Raises if a tensor reaches beyond its storage, so that it would read or write other memory: after
// Storage.resize_(), or from a file whose sizes PyTorch does not check (torch.jit.load).
void check_memory(const c10::TensorImpl& tensor);

}  // namespace ocl
