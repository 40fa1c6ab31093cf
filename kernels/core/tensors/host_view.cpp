#include "kernels/core/tensors/host_view.h"

#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>

#include "kernels/core/tensors/tensors.h"

namespace ocl {

namespace {

uintptr_t begin_of(const at::Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
}

}  // namespace

bool HostViews::Region::has_unwritten_bytes() const {
  return std::none_of(written.begin(), written.end(), [this](const at::Tensor& tensor) {
    return begin_of(tensor) == begin && begin + tensor.nbytes() == end &&
           tensor.is_non_overlapping_and_dense();
  });
}

HostViews::Region* HostViews::find(const at::Tensor& tensor) {
  const auto* storage = tensor.storage().unsafeGetStorageImpl();
  for (Region& region : regions_) {
    if (region.storage == storage) return &region;
  }
  return nullptr;
}

void HostViews::add(const at::Tensor& tensor, MapAccess access) {
  if (tensor.numel() == 0) return;
  const uintptr_t begin = begin_of(tensor);
  const uintptr_t end = begin + extent_bytes(tensor);
  Region* region = find(tensor);
  if (region) {
    region->begin = std::min(region->begin, begin);
    region->end = std::max(region->end, end);
    if (region->access != access) region->access = MapAccess::kReadWrite;
  } else {
    region = &regions_.emplace_back(tensor.storage().unsafeGetStorageImpl(), begin, end, access,
                                    static_cast<DeviceIndex>(tensor.get_device()));
  }
  if (access != MapAccess::kRead) region->written.push_back(tensor);
}

at::Tensor HostViews::view(const at::Tensor& tensor) {
  const auto options = tensor.options().device(at::kCPU);
  void* data = nullptr;
  size_t bytes = 0;
  if (Region* region = find(tensor); region && tensor.numel() > 0) {
    if (!region->mapping) {
      Stream& stream = current_stream(region->device);
      // A copy must not be written back over bytes that the operator did not write: another stream
      // may write them meanwhile.
      region->copies_written = !stream.device().uses_host_memory() &&
                               region->access != MapAccess::kRead && region->has_unwritten_bytes();
      region->mapping.emplace(stream, resolve(reinterpret_cast<void*>(region->begin)),
                              region->end - region->begin,
                              region->copies_written ? MapAccess::kRead : region->access);
    }
    data = static_cast<char*>(region->mapping->data()) + (begin_of(tensor) - region->begin);
    bytes = extent_bytes(tensor);
  }
  // The storage does not own the mapped memory; a resize gives it memory of the CPU allocator.
  const c10::Storage storage(c10::Storage::use_byte_size_t(), bytes,
                             c10::DataPtr(
                                 data, data, [](void*) {}, c10::Device(at::kCPU)),
                             c10::GetCPUAllocator(),
                             /*resizable=*/true);
  return at::empty({0}, options.memory_format(std::nullopt))
      .set_(storage, 0, tensor.sizes(), tensor.strides());
}

void HostViews::write_back() {
  for (Region& region : regions_) {
    if (!region.mapping || !region.copies_written) continue;
    for (const at::Tensor& tensor : region.written) tensor.copy_(view(tensor));
  }
  for (Region& region : regions_) {
    if (!region.mapping) continue;
    region.mapping->close();
    closed_.push_back(std::move(*region.mapping));
  }
  regions_.clear();
}

}  // namespace ocl
