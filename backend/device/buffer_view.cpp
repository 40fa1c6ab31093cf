#include "backend/device/buffer_view.h"

#include <array>
#include <mutex>
#include <unordered_map>

#include "backend/base/error.h"
#include "backend/device/address_space.h"

namespace ocl {

BufferView placeholder(Device& device) {
  constexpr size_t kBytes = 4096;
  static std::mutex mutex;
  static auto* const all = new std::unordered_map<DeviceIndex, Segment>();  // never destroyed
  std::lock_guard lock(mutex);
  Segment& segment = (*all)[device.index()];
  if (!segment.buffer()) {
    translated([&] { return str("cannot allocate a placeholder on ", device.label()); },
               [&] {
                 std::array<char, kBytes> zeros{};
                 segment.buffer =
                     cl::Buffer(device.context(), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, kBytes,
                                zeros.data());
               });
    segment.device = &device;
    segment.size = kBytes;
  }
  return {&segment, 0};
}

BufferView resolve(const void* address) {
  const Segment* segment = AddressSpace::instance().find(address);
  const size_t offset = segment ? reinterpret_cast<uintptr_t>(address) - segment->address : 0;
  TORCH_CHECK(segment && offset < segment->size, "the data pointer ", address,
              " does not belong to memory of an ocl device: tensors on ocl must be made by torch "
              "(torch.empty, Tensor.to), not from a pointer");
  return {segment, offset};
}

}  // namespace ocl
