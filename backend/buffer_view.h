// A place in device memory: what a kernel gets for a tensor. resolve() is the only reader of data
// pointers; it refuses addresses that are not ours (from_blob, another device's memory).
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/device.h"

namespace ocl {

// One device buffer and the addresses it shows under.
struct Segment {
  cl::Buffer buffer;
  Device* device = nullptr;
  uintptr_t address = 0;
  size_t size = 0;
  // Whether a block of it was given to a second stream (record_stream).
  std::atomic<bool> shared_between_streams{false};
};

struct BufferView {
  const Segment* segment = nullptr;
  size_t offset = 0;  // bytes

  cl_mem buffer() const { return segment->buffer(); }
  Device& device() const { return *segment->device; }
};

BufferView resolve(const void* address);

// The kernel argument for a tensor without elements, which has no memory. No result depends on it.
BufferView placeholder(Device& device);

}  // namespace ocl
