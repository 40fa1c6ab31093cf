// Limits the sums in a register tile of a CPU-family kernel.
#pragma once

#include "backend/device/device.h"

namespace ocl {

// Whether there are 32 registers of 16 floats, as with AVX-512. Otherwise tiles are made for AVX2,
// which has 16 registers of 8 floats; a vector of 16 floats takes two. Sums take at most 24 of 32
// registers, or 12 of 16, and leave the rest for operands.
inline bool has_wide_registers(const Device& device) {
  return device.properties().native_vector_width_float >= 16;
}

}  // namespace ocl
