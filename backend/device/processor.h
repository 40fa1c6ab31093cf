// The model of a device's processor, as far as its driver or the system reports it. The choice of a
// matrix unit needs it.
#pragma once

#include <string>
#include <string_view>

#include "backend/device/device.h"

namespace ocl {

struct Processor {
  // NVIDIA: the compute capability, 80 for 8.0; 0: unknown.
  unsigned compute_capability = 0;
  // AMD: the processor's name in AMD's own driver, such as "gfx90a"; empty: unknown.
  std::string gfx_name;
  // Work-items of a sub-group; Intel: the fewest that a kernel can ask for. 0: unknown.
  size_t sub_group_size = 0;
  // Whether the device has cl_intel_subgroup_matrix_multiply_accumulate.
  bool has_intel_matrices = false;
  // CPU devices: whether this machine's processor has AMX for bfloat16 and int8, and AVX-512 with
  // bfloat16.
  bool has_amx = false;
};

Processor processor_of(const Device& device);

// Whether a line of flags of /proc/cpuinfo has all flags that Processor::has_amx needs.
bool has_amx(std::string_view flags);

}  // namespace ocl
