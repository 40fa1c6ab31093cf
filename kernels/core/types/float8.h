// Floating-point types of 8 bits. Kernels only convert them, and compute in other types, as on
// CPUs.
#pragma once

#include "kernels/core/types/dtype.h"

namespace ocl {

// Whether kernels convert the type. The host converts float8_e8m0fnu, the type of scales of blocks.
bool is_float8(ScalarType type) noexcept;

// The type's name in kernels: "f8" for these types.
const char* converted_name(ScalarType type);

// If the type is one of these, defines the kind of "f8" for float8.clh.
void define_float8(Defines& defines, ScalarType type);

}  // namespace ocl
