// Buffers of one device, and how much memory is left for them.
#pragma once

#include <optional>
#include <string>

#include "backend/device/device.h"

namespace ocl {

class DeviceMemory {
 public:
  explicit DeviceMemory(Device& device) : device_(device) {}

  // A buffer that has its memory, or an empty one where memory ran out: refusal() says how. Other
  // failures throw. Not safe to call from several threads at once.
  cl::Buffer create(size_t bytes);
  struct Result {
    cl_int code;
    const char* function;  // that returned the code
  };
  // Makes the driver allocate the memory of a buffer.
  Result commit(const cl::Buffer& buffer, size_t bytes);
  // "clCreateBuffer failed with CL_OUT_OF_RESOURCES (-5)" after create() has returned no buffer.
  const std::string& refusal() const { return refusal_; }
  // Free memory of the device, other processes considered, where the driver tells it.
  std::optional<size_t> free_bytes() const;

 private:
  void advise_huge_pages(const cl::Buffer& buffer, size_t bytes);

  Device& device_;
  std::string refusal_;
  cl::CommandQueue queue_;  // of commit()
};

}  // namespace ocl
