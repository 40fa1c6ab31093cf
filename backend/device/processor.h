// The processor of a device, as far as its driver or the system tells: what matrix units are known
// by.
#pragma once

#include <string>
#include <string_view>

#include "backend/device/device.h"

namespace ocl {

struct Processor {
  // Of NVIDIA's devices: 80 for 8.0; 0: unknown.
  unsigned compute_capability = 0;
  // The name of AMD's processors in AMD's own driver, as "gfx90a"; empty: unknown.
  std::string gfx_name;
  // Work-items of a sub-group, of Intel's devices the fewest that a kernel can ask for; 0: unknown.
  size_t sub_group_size = 0;
  // Whether it has cl_intel_subgroup_matrix_multiply_accumulate.
  bool has_intel_matrices = false;
  // Of this machine's processor, where kernels of the CPU family run on it: whether it has AMX for
  // bfloat16 and int8, and AVX-512 with bfloat16.
  bool has_amx = false;
};

Processor processor_of(const Device& device);

// Whether a line of flags as Linux reports them has all that Processor::has_amx says.
bool has_amx(std::string_view flags);

}  // namespace ocl
