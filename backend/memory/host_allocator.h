// Pinned host memory, which a device reads and writes without a copy by the driver, so that
// non_blocking copies overlap with other work. torch's CachingHostAllocator caches it.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

namespace ocl {

at::HostAllocator* host_allocator();

// Whether the address lies in memory of host_allocator().
bool is_pinned(const void* pointer);

// Defers the reuse of pinned memory until the stream's commands so far have completed. Returns
// false for memory of another allocator.
bool record_pinned(const void* pointer, void* context, c10::Stream stream);

}  // namespace ocl
