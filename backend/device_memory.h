// Buffers of one device, and how much memory is left for them.
#pragma once

#include <optional>

#include "backend/device.h"

namespace ocl {

class DeviceMemory {
 public:
  explicit DeviceMemory(Device& device) : device_(device) {}

  // A buffer that has its memory, or an empty one where memory ran out. Other failures throw.
  // Not safe to call from several threads at once.
  cl::Buffer create(size_t bytes);
  // Makes the driver allocate the memory of a buffer. Returns OpenCL's code.
  cl_int commit(const cl::Buffer& buffer, size_t bytes);
  // Free memory of the device, other processes considered, where the driver tells it.
  std::optional<size_t> free_bytes() const;

 private:
  void advise_huge_pages(const cl::Buffer& buffer, size_t bytes);

  Device& device_;
  cl::CommandQueue queue_;  // of commit()
};

}  // namespace ocl
