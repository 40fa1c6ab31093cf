#include "kernels/core/operators/operands.h"

#include "backend/memory/allocator.h"
#include "backend/memory/storage.h"

namespace ocl {

void check_operand(const at::TensorBase& tensor, uint64_t thread) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  check_memory(*tensor.unsafeGetTensorImpl());
  Allocator::note_use(tensor.storage().data_ptr(), thread);
}

}  // namespace ocl
