#include "backend/device/processor.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backend/base/system.h"
#include "backend/device/query.h"

namespace ocl {
namespace {

// The smallest of several sizes; 0: unknown.
size_t smallest_of(cl_device_id device, cl_device_info what) {
  const auto bytes = bytes_of(device, what);
  std::vector<size_t> sizes(bytes.size() / sizeof(size_t));
  if (sizes.empty()) return 0;
  std::memcpy(sizes.data(), bytes.data(), sizes.size() * sizeof(size_t));
  return *std::min_element(sizes.begin(), sizes.end());
}

}  // namespace

Processor processor_of(const Device& device) {
  constexpr cl_device_info kNvMajor = 0x4000, kNvMinor = 0x4001, kNvWarpSize = 0x4003,
                           kAmdWavefrontWidth = 0x4043, kIntelSubGroupSizes = 0x4108;
  const cl_device_id handle = device.handle()();
  Processor p;
  if (device.has_extension("cl_nv_device_attribute_query")) {
    const auto major = number_of(handle, kNvMajor), minor = number_of(handle, kNvMinor);
    if (major && minor) p.compute_capability = *major * 10 + *minor;
    p.sub_group_size = number_of(handle, kNvWarpSize).value_or(0);
  } else if (device.has_extension("cl_amd_device_attribute_query")) {
    p.sub_group_size = number_of(handle, kAmdWavefrontWidth).value_or(0);
    const std::string& name = device.properties().name;  // "gfx90a:sramecc+:xnack-"
    if (p.sub_group_size) p.gfx_name = name.substr(0, name.find(':'));
  } else if (device.has_extension("cl_intel_required_subgroup_size")) {
    p.sub_group_size = smallest_of(handle, kIntelSubGroupSizes);
    p.has_intel_matrices = device.has_extension("cl_intel_subgroup_matrix_multiply_accumulate");
  }
  if (device.family() == KernelFamily::kCpu && device.uses_host_memory()) {
    p.has_amx = has_amx(host_instruction_sets());
  }
  return p;
}

bool has_amx(std::string_view flags) {
  const std::string line = c10::str(" ", flags, " ");
  return std::ranges::all_of(
      std::array{" amx_tile ", " amx_bf16 ", " amx_int8 ", " avx512bw ", " avx512_bf16 "},
      [&](const char* flag) { return line.find(flag) != std::string::npos; });
}

}  // namespace ocl
