// The choice among the algorithms of convolutions on GPUs that are as fast as each other.
#pragma once

#include "kernels/conv/gpu/conv_direct_gpu.h"

namespace ocl {

// The candidate after the tiles (gemm_gpu.h): conv_winograd_gpu.cpp.
extern const int64_t kConvGpuWinograd;

// The candidate for a call that Winograd's algorithm can compute. `winograd`: whether it is
// estimated to be faster than tiles.
int64_t choose_conv_gpu(const ConvCall& call, bool winograd);

}  // namespace ocl
