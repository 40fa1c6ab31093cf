#pragma once

#include "kernels/conv/common/conv_algorithm.h"

namespace ocl {

// The largest tensor of a call, in bytes, and the limit of GPU kernels: 2 GiB, since indices of
// tiles go beyond the tensor's end. A test sets a lower limit; 0 ends that.
size_t most_bytes(const ConvCall& call);
size_t conv_byte_limit();
void set_conv_byte_limit(size_t bytes);
// Why GPU kernels cannot take a call: shared by the algorithms of GPUs.
const char* refusal_of_gpu_kernels(const ConvCall& call);
bool has_volume(const ConvPass& pass);
// A data gradient has a pass for each of stride^dimensions remainders. Those that no tap reaches
// are the bias, or zero. One fill of the whole result takes the place of their launches.
bool is_launched(const ConvPass& pass, const ConvCall& call);
void fill_without_taps(const ConvCall& call);
// Binds the tensors, and `on` in place of undefined and empty ones. The caller adds the struct.
Arguments bind_tensors(const Kernel& kernel, const at::Tensor& on,
                       std::initializer_list<at::Tensor> all);

// Whether conv_direct_gpu.cl can compute the pass, and its launch, without the epilogue.
bool fits_direct(const ConvPass& pass);
void run_direct(const ConvPass& pass, const ConvCall& call);

}  // namespace ocl
