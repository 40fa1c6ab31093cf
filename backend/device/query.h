// Queries that not all drivers know.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "backend/base/opencl.h"

namespace ocl {

// The bytes of the answer; empty where the driver does not know the query.
inline std::vector<unsigned char> bytes_of(cl_device_id device, cl_device_info what) {
  size_t size = 0;
  if (clGetDeviceInfo(device, what, 0, nullptr, &size) != CL_SUCCESS) return {};
  std::vector<unsigned char> bytes(size);
  if (clGetDeviceInfo(device, what, size, bytes.data(), nullptr) != CL_SUCCESS) return {};
  return bytes;
}

inline std::optional<uint32_t> number_of(cl_device_id device, cl_device_info what) {
  const auto bytes = bytes_of(device, what);
  cl_uint number;
  if (bytes.size() != sizeof(number)) return {};
  std::memcpy(&number, bytes.data(), sizeof(number));
  return number;
}

}  // namespace ocl
