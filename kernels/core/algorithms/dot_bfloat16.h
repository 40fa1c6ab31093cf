// The processor's instructions for products of bfloat16, which compilers for OpenCL do not use by
// themselves: kernels name them in inline assembly (dot_bfloat16_cpu.clh).
#pragma once

#include <c10/core/ScalarType.h>

#include "backend/device/device.h"

namespace ocl {

// Says why kernels may not use dot_bfloat16_cpu.clh on the device; nullptr if they may. The first
// call compiles and runs a probe; in a captured stream it refuses instead.
const char* refusal_of_dot_bfloat16(Device& device);

// Whether kernels multiply numbers of the type with these instructions.
inline bool multiplies_bfloat16(Device& device, c10::ScalarType type) {
  return type == c10::ScalarType::BFloat16 && !refusal_of_dot_bfloat16(device);
}

}  // namespace ocl
