// How many sums a register tile of a kernel of CPU devices may have.
#pragma once

#include "backend/device/device.h"

namespace ocl {

// Whether there are 32 registers of 16 floats, as with AVX-512. Else tiles are made for the 16
// registers of 8 floats of AVX2, where a vector of 16 floats takes two. Sums take at most 24 of the
// 32, or 12 of the 16: the others are for operands.
inline bool has_wide_registers(const Device& device) {
  return device.properties().native_vector_width_float >= 16;
}

}  // namespace ocl
