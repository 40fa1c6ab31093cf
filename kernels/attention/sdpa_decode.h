// The forward pass of attention for few queries (sdpa_decode.clh).
#pragma once

#include "kernels/attention/sdpa_problem.h"

namespace ocl {

// A row of the table of sdpa.cpp.
const char* refusal_of_decoding(const AttentionCall& call);
void decode(const AttentionCall& call);

}  // namespace ocl
