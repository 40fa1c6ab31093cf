// Tensors over buffers that other OpenCL code of the process made, and over the host's memory.
// Buffers are retained while tensors use them.
#pragma once

#include <c10/core/Allocator.h>

#include <functional>

#include "backend/device/buffer_view.h"

namespace ocl {

// Memory over a user's buffer, whose context must be that of `device`; nullptr: of any of our
// devices. `release` is called after the last tensor of the memory is gone and the device has
// completed the commands that use it.
struct ExternalMemory {
  c10::DataPtr data;
  size_t bytes = 0;  // bytes from `data` on
};
ExternalMemory wrap_buffer(Device* device, cl_mem buffer, size_t offset,
                           std::function<void()> release);

// Host memory that the device uses in place; ValueError where it cannot. `release` is called when
// the driver has released the memory.
ExternalMemory wrap_host(Device& device, void* data, size_t bytes, std::function<void()> release);

// The alignment in bytes that host memory needs for the device to use it in place; 0: the device
// cannot, as no GPU can. The first call finds it by a trial.
size_t host_alignment(Device& device);

}  // namespace ocl
