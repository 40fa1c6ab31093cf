// Where CPU-family kernels keep the vector of a matrix-vector product.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/core/types/dtype.h"

namespace ocl {

// X_SPACE of gemv_cpu.cl for a vector of k numbers: the size of the converted copy in local memory;
// 0: the vector is read in place.
inline int64_t space_of_x(const Device& device, ScalarType type, int64_t k) {
  constexpr int64_t kLeast = 4096;  // rounded, so that most sizes share a kernel
  constexpr int64_t kMost = 16384;  // fits the second level cache
  const ScalarType compute = compute_type(type);
  if (type == compute || k > kMost) return 0;
  const int64_t space = std::max(kLeast, static_cast<int64_t>(std::bit_ceil(uint64_t(k))));
  const auto bytes = space * static_cast<int64_t>(c10::elementSize(compute));
  return bytes <= static_cast<int64_t>(device.properties().local_memory) ? space : 0;
}

}  // namespace ocl
