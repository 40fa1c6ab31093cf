#pragma once

#include <string_view>

#include "kernels/conv/common/conv_algorithm.h"

namespace ocl {

// Runs the first algorithm that applies. Returns false if none applies, which happens only for
// channels_last tensors.
bool run_convolution(const ConvCall& call);
// Whether an algorithm applies and the user prefers no other one. Reads only types and sizes of the
// tensors.
bool can_run_convolution(const ConvCall& call);
// Prefers an algorithm wherever it applies, as OCL_CONV_ALGORITHM does; an empty name ends the
// preference.
void prefer_conv_algorithm(std::string_view name);

}  // namespace ocl
