#include "kernels/core/host_view.h"

#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>

#include "kernels/core/tensors.h"

namespace ocl {

HostViews::Region* HostViews::find(const at::Tensor& tensor) {
  const auto* storage = tensor.storage().unsafeGetStorageImpl();
  for (Region& region : regions_) {
    if (region.storage == storage) return &region;
  }
  return nullptr;
}

void HostViews::add(const at::Tensor& tensor, MapAccess access) {
  if (tensor.numel() == 0) return;
  const auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  const uintptr_t end = begin + extent_bytes(tensor);
  if (Region* region = find(tensor)) {
    region->begin = std::min(region->begin, begin);
    region->end = std::max(region->end, end);
    if (region->access != access) region->access = MapAccess::kReadWrite;
    return;
  }
  regions_.push_back({tensor.storage().unsafeGetStorageImpl(), begin, end, access,
                      static_cast<DeviceIndex>(tensor.get_device()), std::nullopt});
}

at::Tensor HostViews::view(const at::Tensor& tensor) {
  const auto options = tensor.options().device(at::kCPU);
  void* data = nullptr;
  size_t bytes = 0;
  if (Region* region = find(tensor); region && tensor.numel() > 0) {
    if (!region->mapping) {
      region->mapping.emplace(current_stream(region->device),
                              resolve(reinterpret_cast<void*>(region->begin)),
                              region->end - region->begin, region->access);
    }
    const auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
    data = static_cast<char*>(region->mapping->data()) + (begin - region->begin);
    bytes = extent_bytes(tensor);
  }
  // The storage does not own the mapped memory. A resize replaces it by memory of the CPU
  // allocator.
  const c10::Storage storage(c10::Storage::use_byte_size_t(), bytes,
                             c10::DataPtr(
                                 data, data, [](void*) {}, c10::Device(at::kCPU)),
                             c10::GetCPUAllocator(),
                             /*resizable=*/true);
  return at::empty({0}, options.memory_format(std::nullopt))
      .set_(storage, 0, tensor.sizes(), tensor.strides());
}

}  // namespace ocl
