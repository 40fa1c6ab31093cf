// Contexts, queues and buffers that other OpenCL code of the process made, for use by tensors and
// streams. Their handles are retained while they are in use here.
#pragma once

#include <c10/core/Allocator.h>

#include <functional>

#include "backend/buffer_view.h"
#include "backend/stream.h"

namespace ocl {

// Makes all devices of the user's context use it instead of one of their own, and returns the first
// of them. ValueError when one of them already has another context.
Device& use_context(cl_context context);

// The stream of the user's queue, which must be in order and of the device's context. The same
// queue gives the same stream; a stream stays until the process ends.
c10::Stream external_stream(cl_command_queue queue);

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

// Runs a wait for the device. The caller may hold Python's lock, which is given up meanwhile: a
// driver's thread may need it to release such memory.
void wait_unlocked(const std::function<void()>& wait);
// Sets the function that does it.
using WaitWrapper = void (*)(const std::function<void()>& wait);
void set_wait_wrapper(WaitWrapper wrapper);

// The alignment in bytes that host memory needs for the device to use it in place; 0: the device
// cannot, as no GPU can. Found by a trial at the first call.
size_t host_alignment(Device& device);

}  // namespace ocl
