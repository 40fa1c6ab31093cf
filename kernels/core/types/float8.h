// Floating-point types of 8 bits. As on CPUs, kernels convert them, and compute in other types.
#pragma once

#include "kernels/core/types/dtype.h"

namespace ocl {

// Whether kernels convert the type. float8_e8m0fnu, which scales of blocks have, is converted by
// the host.
bool is_float8(ScalarType type) noexcept;

// The type's name in kernels, "f8" for those above.
const char* converted_name(ScalarType type);

// Defines the kind of "f8" for float8.clh, where the type is one.
void define_float8(Defines& defines, ScalarType type);

}  // namespace ocl
