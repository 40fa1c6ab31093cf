#include "kernels/core/tensors/lazy_clone.h"

#if OCL_HAS_LAZY_CLONES
#include <ATen/ops/_lazy_clone_native.h>
#include <ATen/ops/clone.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/COW.h>
#include <c10/core/impl/COWDeleter.h>
#include <c10/util/ParallelGuard.h>
#include <torch/library.h>

#include "backend/memory/allocator.h"
#include "backend/memory/transfer.h"
#include "backend/queue/stream.h"

namespace ocl {
namespace {

namespace cow = c10::impl::cow;

// Replaces PyTorch's materialize_cow(), which assumes that the context of the memory is its address
// and that the storage's device is current.
void materialize(c10::StorageImpl* storage) {
  TORCH_CHECK(!c10::ParallelGuard::is_enabled(),
              "Materializing a storage in the loop function of at::parallel_for is forbidden");
  c10::DataPtr& shared = storage->_mutable_data_ptr_no_checks();
  auto* const context = shared.cast_context<cow::COWDeleterContext>(cow::cow_deleter);
  TORCH_INTERNAL_ASSERT(context != nullptr);
  // The copy reads the memory on the current stream, which may not be the memory's own stream.
  Allocator::instance().recordStream(shared, current_stream(shared.device().index()).unpack());
  c10::DataPtr own;
  auto rest = context->decrement_refcount();
  auto* const last = std::get_if<cow::COWDeleterContext::LastReference>(&rest);
  if (last) {
    const c10::DeleterFnPtr deleter = last->get_deleter();
    own = c10::DataPtr(shared.get(), last->release(), deleter, shared.device());
  } else {
    const c10::DeviceGuard guard(shared.device());
    try {
      own = storage->allocator()->clone(shared.get(), storage->nbytes());
    } catch (...) {  // `rest` holds a lock, so no other owner sees the lower count
      context->increment_refcount();
      throw;
    }
  }
  shared.release_context();  // its reference was removed above
  storage->set_data_ptr_noswap(std::move(own));
  // Former owners may still copy the memory on other streams.
  if (last && shared.get()) {
    wait_for_other_streams(current_stream(storage->device().index()), resolve(shared.get()));
  }
}

at::Tensor lazy_clone(const at::Tensor& self) {
  // Other code has the address of the memory. With a lazy clone, the next write would give the
  // tensor other memory.
  if (!self.storage().resizable()) return self.clone();
  const at::Tensor clone = at::native::_lazy_clone(self);
  for (const at::Tensor& each : {self, clone}) {
    c10::StorageImpl* storage = each.storage().unsafeGetStorageImpl();
    storage->clear_materializer();
    storage->set_materializer(&materialize);
  }
  return clone;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_lazy_clone", &lazy_clone); }

}  // namespace
}  // namespace ocl
#endif
