#pragma once

#include "kernels/conv/common/conv_algorithm.h"

namespace ocl {

// The size in bytes of a call's largest tensor, and the limit for GPU kernels: 2 GiB, because
// indices of tiles go beyond the tensor's end. Tests set a lower limit; 0 restores 2 GiB.
size_t most_bytes(const ConvCall& call);
size_t conv_byte_limit();
void set_conv_byte_limit(size_t bytes);
// The refusal that all algorithms for GPUs share.
const char* refusal_of_gpu_kernels(const ConvCall& call);
bool has_volume(const ConvPass& pass);
// A data gradient has a pass for each of stride^dimensions remainders. Results that no tap reaches
// are the bias, or zero: this fills the whole result once instead of launching those passes.
bool is_launched(const ConvPass& pass, const ConvCall& call);
void fill_without_taps(const ConvCall& call);
// Adds the tensors as arguments, and `on` instead of undefined and empty ones. The caller adds the
// struct.
Arguments bind_tensors(const Kernel& kernel, const at::Tensor& on,
                       std::initializer_list<at::Tensor> all);

// Whether conv_direct_gpu.cl can compute the pass; launches it, without the epilogue.
bool fits_direct(const ConvPass& pass);
void run_direct(const ConvPass& pass, const ConvCall& call);

}  // namespace ocl
