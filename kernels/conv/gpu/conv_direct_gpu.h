#pragma once

#include "kernels/conv/common/conv_algorithm.h"

namespace ocl {

// Why GPU kernels cannot take a call: shared by the algorithms of GPUs.
const char* refusal_of_gpu_kernels(const ConvCall& call);
bool has_volume(const ConvPass& pass);
// Binds the tensors, and `on` in place of undefined and empty ones. The caller adds the struct.
Arguments bind_tensors(const Kernel& kernel, const at::Tensor& on,
                       std::initializer_list<at::Tensor> all);

// Whether conv_direct_gpu.cl can compute the pass, and its launch, without the epilogue.
bool fits_direct(const ConvPass& pass);
void run_direct(const ConvPass& pass, const ConvCall& call);

}  // namespace ocl
