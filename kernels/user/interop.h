// Makes tensors over the memory of other code, and gives other code the memory of tensors: buffers,
// host memory, DLPack.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/dlpack.h>

#include <functional>
#include <memory>

#include "backend/memory/interop.h"
#include "backend/memory/storage.h"
#include "kernels/core/tensors/host_view.h"

namespace ocl {

// The layout of a tensor over other code's memory. Strides are in elements.
struct Layout {
  std::vector<int64_t> sizes;
  std::optional<std::vector<int64_t>> strides;
  c10::ScalarType type;
};

// A tensor over the memory of a buffer. ValueError if it would reach beyond the memory.
at::Tensor tensor_of_buffer(std::optional<DeviceIndex> device, cl_mem buffer, size_t offset,
                            const Layout& layout, std::function<void()> release);
// A tensor over the memory of a dense CPU tensor, which then cannot be resized, as after numpy().
at::Tensor tensor_of_host(const at::Tensor& host, DeviceIndex device);

// A CPU tensor over the memory of a tensor on a device that shares the host's memory. It is valid
// from enter() to exit(), and keeps the memory alive after that.
class HostMap {
 public:
  HostMap(const at::Tensor& tensor, bool writable);
  at::Tensor enter();
  void exit();

 private:
  const at::Tensor tensor_;  // an alias, because the caller's tensor may get other memory
  const bool writable_;
  StorageHold hold_;  // set from enter() to exit()
  std::shared_ptr<HostViews> views_;
};

// By DLPack's standard for OpenCL, the data pointer is the cl_mem, with an offset in bytes. The
// consumer has its own queue, so this waits for the commands that write the tensor.
DLManagedTensor* to_dlpack(const at::Tensor& tensor);
// Raises if a tensor that another library made over one of our addresses reaches beyond the memory
// allocated there.
void check_foreign(const at::Tensor& tensor);
// Takes ownership of `managed`.
at::Tensor from_dlpack(DLManagedTensor* managed, std::optional<DeviceIndex> device);

}  // namespace ocl
