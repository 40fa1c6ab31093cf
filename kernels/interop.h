// Tensors over memory of others, and memory of tensors for others: buffers, host memory, DLPack.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/dlpack.h>

#include <functional>
#include <memory>

#include "backend/interop.h"
#include "kernels/host_view.h"

namespace ocl {

// What a tensor made of foreign memory is like. Strides are in elements.
struct Layout {
  std::vector<int64_t> sizes;
  std::optional<std::vector<int64_t>> strides;
  c10::ScalarType type;
};

// Tensors over the memory; ValueError when they would reach beyond it.
at::Tensor tensor_of_buffer(std::optional<DeviceIndex> device, cl_mem buffer, size_t offset,
                            const Layout& layout, std::function<void()> release);
// Over the memory of a dense CPU tensor, which lives as long as the result.
at::Tensor tensor_of_host(const at::Tensor& host, DeviceIndex device);

// The memory of a tensor on a device that shares the host's, as a CPU tensor that is valid from
// enter() to exit(). Afterwards it still keeps the memory.
class HostMap {
 public:
  HostMap(at::Tensor tensor, bool writable);
  at::Tensor enter();
  void exit() { views_.reset(); }

 private:
  const at::Tensor tensor_;
  const bool writable_;
  std::unique_ptr<HostViews> views_;
};

// DLPack as its standard has OpenCL: the data pointer is the buffer, with an offset in bytes. The
// consumer has a queue of its own, so the tensor is complete when this returns.
DLManagedTensor* to_dlpack(const at::Tensor& tensor);
// Takes the tensor over.
at::Tensor from_dlpack(DLManagedTensor* managed, std::optional<DeviceIndex> device);

}  // namespace ocl
