// Functions of the allocator that queues call. They are hooks, because the allocator depends on
// queues.
#pragma once

#include <cstdint>

#include "backend/device/buffer_view.h"

namespace ocl {

// The thread that allocated a block of memory. Its kernels may have computed the contents
// (fault.h).
struct FaultOrigin {
  uint64_t thread = 0;      // FaultThread::id(); 0: nobody
  uint64_t allocation = 0;  // the thread's count of blocks at the allocation
};

// Set once, by allocator.cpp, while the library is loaded.
struct MemoryHooks {
  // Returns cached memory to the driver, after all commands of the device have ended.
  void (*free_cached)(DeviceIndex device) = nullptr;
  // Searches all segments.
  FaultOrigin (*origin)(const BufferView& view) = nullptr;
};
inline constinit MemoryHooks memory_hooks;

// Calls a function that enqueues a command and returns OpenCL's code. Where the driver lacks memory
// for the command, this frees what is cached and calls it once more.
template <typename Enqueue>
cl_int enqueue_with_memory(DeviceIndex device, Enqueue&& enqueue) {
  const cl_int code = enqueue();
  if (C10_LIKELY(code != CL_MEM_OBJECT_ALLOCATION_FAILURE)) return code;
  memory_hooks.free_cached(device);
  return enqueue();
}

}  // namespace ocl
