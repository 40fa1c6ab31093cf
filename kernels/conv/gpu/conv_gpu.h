// The choice among tiles and Winograd's algorithm for convolutions on GPUs: which one is faster
// depends on the device and on the sizes.
#pragma once

#include "kernels/conv/gpu/conv_direct_gpu.h"

namespace ocl {

// The candidate after the tiles (gemm_gpu.h): conv_winograd_gpu.cpp.
extern const int64_t kConvGpuWinograd;

// The candidate for a call that Winograd's algorithm can compute. `faster`: whether it is estimated
// to be faster than tiles.
int64_t choose_conv_gpu(const ConvCall& call, bool faster);

}  // namespace ocl
