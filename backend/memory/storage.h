// The memory of tensors: who may change its size, and which tensors it is too small for.
#pragma once

#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>

#include <memory>

namespace ocl {

// Keeps a storage whose address code outside of torch has, and refuses to resize it meanwhile, as
// after Tensor.numpy(). A tensor is no such handle: `x.data = other` and `x.set_(other)` give it
// another storage, and Storage.resize_() gives the storage other memory.
using StorageHold = std::shared_ptr<const c10::Storage>;
StorageHold hold_storage(const c10::Storage& storage);

// Refuses to resize a storage from now on. That of a file: sizes in the file would let it grow.
void fix_storage_size(const c10::Storage& storage);

// Another tensor of the same memory.
inline c10::intrusive_ptr<c10::TensorImpl> alias(const c10::TensorImpl& tensor) {
  return tensor.shallow_copy_and_detach(tensor.version_counter(),
                                        /*allow_tensor_metadata_change=*/false);
}

// Raises where a tensor reaches beyond its storage, and would show or change the memory of others:
// after Storage.resize_(), or of a file whose sizes PyTorch does not check (torch.jit.load).
void check_memory(const c10::TensorImpl& tensor);

}  // namespace ocl
