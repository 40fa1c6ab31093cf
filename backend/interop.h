// What other OpenCL code of the process shares with this one: contexts, queues and buffers that the
// user made. Handles are retained for as long as they are used here.
#pragma once

#include <c10/core/Allocator.h>

#include <functional>

#include "backend/buffer_view.h"
#include "backend/stream.h"

namespace ocl {

// Makes the device use the user's context instead of one of its own; ValueError when it already has
// another. Returns the first of our devices that the context is of, all of which use it from now.
Device& use_context(cl_context context);

// The stream of the user's queue, which must be in order and of the device's context. The same
// queue gives the same stream; a stream stays until the process ends.
c10::Stream external_stream(cl_command_queue queue);

// Memory of a buffer that the user made in the context of `device`, or, with nullptr, of any of our
// devices. `release` is called when the memory is let go of, after the device has completed what
// uses it.
struct ExternalMemory {
  c10::DataPtr data;
  size_t bytes = 0;  // from `data` on
};
ExternalMemory wrap_buffer(Device* device, cl_mem buffer, size_t offset,
                           std::function<void()> release);

// Memory of the host, shown to the device without a copy; ValueError where it cannot be.
ExternalMemory wrap_host(Device& device, void* data, size_t bytes, std::function<void()> release);

// What waits for the device when such memory is let go of, which may happen with Python's lock
// held.
using WaitWrapper = void (*)(const std::function<void()>& wait);
void set_wait_wrapper(WaitWrapper wrapper);

// Bytes to whose multiples host memory must be aligned so that the device can use it in place; 0:
// the device cannot. Found by a try at the first call.
size_t host_alignment(Device& device);

}  // namespace ocl
