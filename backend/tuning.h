// Choices among the variants of a kernel that were measured on a device (python -m torch_ocl.tune).
// They are kept in the folder of the program cache, one file per device and driver version; a
// problem that was not measured gets the default.
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <string>

#include "backend/device.h"

namespace ocl {

// What has variants; the names are in files, so they must not change.
enum class Tunable : uint64_t { kGemmCpu, kGemmGpu, kConvGpu, kConvCpu };

// A choice as it was made last on this thread.
struct TunedProblem {
  std::string tunable;
  uint64_t problem = 0;  // sizes and types, as the caller packs them
  int64_t candidates = 0;
  int64_t choice = -1;  // below 0: none was made
};

// The measured candidate (0 .. candidates - 1) if it `fits`, or what `otherwise` gives. No lock, no
// allocation.
int64_t choose_tuned(const Device& device, Tunable tunable, uint64_t problem, int64_t candidates,
                     c10::function_ref<bool(int64_t)> fits, c10::function_ref<int64_t()> otherwise);

// Sizes that are close behave alike: a bit length each, 6 bits wide.
uint64_t pack_sizes(std::initializer_list<int64_t> sizes);

TunedProblem last_tuned();
void forget_tuned();
// For tests: every problem of the tunable gets this candidate where it fits; none with -1.
void force_tuned(const std::string& tunable, int64_t choice);

// For the tuner: sets or removes (choice < 0) a choice in this process; writes all of a device's
// choices, and returns the path of the file.
void set_tuned(DeviceIndex device, const std::string& tunable, uint64_t problem, int64_t choice);
std::string save_tuned(DeviceIndex device);

}  // namespace ocl
