// Attention by the matrix unit of a CPU (sdpa_unit_cpu.cl).
#pragma once

#include "kernels/attention/sdpa_problem.h"

namespace ocl {

// A row of the table of sdpa.cpp.
const char* refusal_of_unit(const AttentionCall& call);
void run_unit(const AttentionCall& call);

}  // namespace ocl
