// The forward pass of attention for few queries (sdpa_decode.clh).
#pragma once

#include "kernels/attention/sdpa_problem.h"

namespace ocl {

// Why the kernels of sdpa.cpp compute it instead; nullptr: these do.
const char* refusal_of_decoding(const Attention& a);
// out: as Attention's strides say; log_sum [batch][heads][queries] in float32.
void decode(const Attention& a, const at::Tensor& out, const at::Tensor& log_sum);

}  // namespace ocl
