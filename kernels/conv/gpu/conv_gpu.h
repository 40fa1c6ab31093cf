// Chooses among tiles and Winograd's algorithm for convolutions on GPUs. Which one is faster
// depends on the device and the sizes.
#pragma once

#include "kernels/conv/gpu/conv_direct_gpu.h"

namespace ocl {

// The candidate after the tiles of gemm_gpu.h: Winograd's algorithm (conv_winograd_gpu.cpp).
extern const int64_t kConvGpuWinograd;

// Chooses the candidate for a call that Winograd's algorithm can compute. `faster`: whether that is
// estimated to be faster than tiles.
int64_t choose_conv_gpu(const ConvCall& call, bool faster);

}  // namespace ocl
