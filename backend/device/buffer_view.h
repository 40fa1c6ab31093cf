// A place in device memory, which a kernel takes as an argument for a tensor: a buffer and an
// offset. resolve() finds the place of a data pointer. It refuses addresses that are not ocl memory
// (memory given to from_blob, for example).
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/device/device.h"

namespace ocl {

// One device buffer and its range of addresses.
struct Segment {
  cl::Buffer buffer;
  Device* device = nullptr;
  uintptr_t address = 0;
  size_t size = 0;
  // Whether a block of it was recorded on a second stream (record_stream).
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
