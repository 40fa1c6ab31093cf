#include "backend/memory/storage.h"

#include <c10/util/safe_numerics.h>

#include <mutex>
#include <unordered_map>

#include "backend/device/device.h"

namespace ocl {
namespace {

struct Held {
  size_t holds = 0;
  bool resizable = false;  // to restore at the end
};

struct Holds {
  std::mutex mutex;  // guards the member below
  std::unordered_map<const c10::StorageImpl*, Held> all;
};

// Leaked: threads may end holds while the process exits.
Holds& holds() {
  static auto* const instance = new Holds;
  return *instance;
}

// Bytes from the start of the storage to the end of the last element; nullopt beyond 64 bits.
std::optional<uint64_t> end_of(const c10::TensorImpl& tensor) {
  uint64_t elements = 0, step = 0, bytes = 0;
  bool overflow =
      c10::add_overflows(static_cast<uint64_t>(tensor.storage_offset()), uint64_t{1}, &elements);
  const c10::IntArrayRef sizes = tensor.sizes(), strides = tensor.strides();
  for (size_t d = 0; d < sizes.size(); ++d) {
    overflow |= c10::mul_overflows(static_cast<uint64_t>(sizes[d] - 1),
                                   static_cast<uint64_t>(strides[d]), &step);
    overflow |= c10::add_overflows(elements, step, &elements);
  }
  overflow |= c10::mul_overflows(elements, uint64_t{tensor.itemsize()}, &bytes);
  return overflow ? std::nullopt : std::optional(bytes);
}

void release(const c10::Storage* held) {
  if (in_bad_fork()) return;                                // another thread may have held the lock
  const std::unique_ptr<const c10::Storage> storage(held);  // released after the lock
  std::lock_guard lock(holds().mutex);
  const auto found = holds().all.find(storage->unsafeGetStorageImpl());
  if (--found->second.holds > 0) return;
  storage->unsafeGetStorageImpl()->set_resizable(found->second.resizable);
  holds().all.erase(found);
}

}  // namespace

StorageHold hold_storage(const c10::Storage& storage) {
  c10::StorageImpl* const impl = storage.unsafeGetStorageImpl();
  {
    std::lock_guard lock(holds().mutex);
    Held& held = holds().all[impl];
    if (held.holds++ == 0) held.resizable = impl->resizable();
    impl->set_resizable(false);
  }
  return {new c10::Storage(storage), &release};
}

void fix_storage_size(const c10::Storage& storage) {
  c10::StorageImpl* const impl = storage.unsafeGetStorageImpl();
  std::lock_guard lock(holds().mutex);
  const auto found = holds().all.find(impl);
  if (found != holds().all.end()) found->second.resizable = false;
  impl->set_resizable(false);
}

void check_memory(const c10::TensorImpl& tensor) {
  if (!tensor.has_storage() || tensor.numel() == 0) return;
  const std::optional<uint64_t> end = end_of(tensor);
  const size_t bytes = tensor.storage().nbytes();
  TORCH_CHECK(end && *end <= bytes, "a tensor of sizes ", tensor.sizes(), ", strides ",
              tensor.strides(), " and ", tensor.dtype().name(), ", from element ",
              tensor.storage_offset(), " on, reaches beyond its storage of ", bytes,
              " bytes. The storage was resized, or the file that the tensor is from is wrong");
}

}  // namespace ocl
