// For structs that are a kernel's argument, and that the host and OpenCL C share: `long` has 64
// bits for both, and the host can assign an array. common.clh has OpenCL C's ARRAY.
#pragma once

#include <array>

#define ARRAY(type, name, size) std::array<type, size> name
static_assert(sizeof(long) == 8);
