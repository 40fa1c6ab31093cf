// Tensors over foreign memory, and tensors' memory for other code: buffers, host memory, DLPack.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/dlpack.h>

#include <functional>
#include <memory>

#include "backend/memory/interop.h"
#include "backend/memory/storage.h"
#include "kernels/core/tensors/host_view.h"

namespace ocl {

// The layout of a tensor over foreign memory. Strides are in elements.
struct Layout {
  std::vector<int64_t> sizes;
  std::optional<std::vector<int64_t>> strides;
  c10::ScalarType type;
};

// A tensor over the memory of a buffer; ValueError when it would reach beyond the memory.
at::Tensor tensor_of_buffer(std::optional<DeviceIndex> device, cl_mem buffer, size_t offset,
                            const Layout& layout, std::function<void()> release);
// A tensor over the memory of a dense CPU tensor, which cannot be resized any more, as after
// numpy().
at::Tensor tensor_of_host(const at::Tensor& host, DeviceIndex device);

// The memory of a tensor on a device that shares the host's, as a CPU tensor that is valid from
// enter() to exit(). Afterwards it still keeps the memory.
class HostMap {
 public:
  HostMap(const at::Tensor& tensor, bool writable);
  at::Tensor enter();
  void exit();

 private:
  const at::Tensor tensor_;  // not the caller's, which may get other memory
  const bool writable_;
  StorageHold hold_;  // while open
  std::shared_ptr<HostViews> views_;
};

// As DLPack's standard says for OpenCL, the data pointer is the cl_mem, with an offset in bytes.
// The consumer has a queue of its own, so this waits for the commands that write the tensor.
DLManagedTensor* to_dlpack(const at::Tensor& tensor);
// Raises where a tensor that another library made over an address of ours reaches beyond the memory
// that was allocated there.
void check_foreign(const at::Tensor& tensor);
// Takes ownership of `managed`.
at::Tensor from_dlpack(DLManagedTensor* managed, std::optional<DeviceIndex> device);

}  // namespace ocl
