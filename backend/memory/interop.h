// Buffers that other OpenCL code of the process made, and the host's memory, for use by tensors.
// The handles of buffers are retained while they are in use here.
#pragma once

#include <c10/core/Allocator.h>

#include <functional>

#include "backend/device/buffer_view.h"

namespace ocl {

// Memory of a buffer that the user made in the context of `device`; nullptr: of any of our devices.
// `release` is called after the last tensor of the memory is gone and the device has completed the
// commands that use it.
struct ExternalMemory {
  c10::DataPtr data;
  size_t bytes = 0;  // from `data` on
};
ExternalMemory wrap_buffer(Device* device, cl_mem buffer, size_t offset,
                           std::function<void()> release);

// Host memory that the device uses in place; ValueError where it cannot. `release` is called when
// the driver has let go of the memory.
ExternalMemory wrap_host(Device& device, void* data, size_t bytes, std::function<void()> release);

// The alignment in bytes that host memory needs for the device to use it in place; 0: the device
// cannot, as no GPU can. Found by a trial at the first call.
size_t host_alignment(Device& device);

}  // namespace ocl
