#include "backend/buffer_view.h"

#include "backend/address_space.h"
#include "backend/error.h"

namespace ocl {

BufferView resolve(const void* address) {
  const Segment* segment = AddressSpace::instance().find(address);
  const size_t offset = segment ? reinterpret_cast<uintptr_t>(address) - segment->address : 0;
  TORCH_CHECK(segment && offset < segment->size, "the data pointer ", address,
              " does not belong to memory of an ocl device: tensors on ocl must be made by torch "
              "(torch.empty, Tensor.to), not from a pointer");
  return {segment, offset};
}

}  // namespace ocl
