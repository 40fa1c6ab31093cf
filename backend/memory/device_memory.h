// Buffers of one device, and how much memory is left for them.
#pragma once

#include <optional>
#include <string>

#include "backend/device/device.h"

namespace ocl {

class DeviceMemory {
 public:
  explicit DeviceMemory(Device& device) : device_(device) {}

  // Returns a buffer whose memory is allocated. If memory ran out, the handle is empty and
  // refusal() has the error; other failures throw. Not thread-safe.
  cl::Buffer create(size_t bytes);
  struct Result {
    cl_int code;
    const char* function;  // the function that returned it
  };
  // Makes the driver allocate the memory of a buffer.
  Result commit(const cl::Buffer& buffer, size_t bytes);
  // "clCreateBuffer failed with CL_OUT_OF_RESOURCES (-5)" after create() has returned no buffer.
  const std::string& refusal() const { return refusal_; }
  // Free memory of the device, as other processes leave it; nullopt where the driver does not
  // report it.
  std::optional<size_t> free_bytes() const;

 private:
  void advise_huge_pages(const cl::Buffer& buffer, size_t bytes);

  Device& device_;
  std::string refusal_;
  cl::CommandQueue queue_;  // for commit()
};

}  // namespace ocl
