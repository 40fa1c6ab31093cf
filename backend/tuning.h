// Choices among the variants of a kernel, as measured on a device (python -m torch_ocl.tune). They
// are kept in the folder of the program cache, one file per device and driver version. Without a
// measurement, the caller's own choice holds.
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <string>

#include "backend/device.h"

namespace ocl {

// The operators with variants. Their names in tuning.cpp are stored in files and must not change.
enum class Tunable : uint64_t { kGemmCpu, kGemmGpu, kConvGpu, kConvCpu };

// The last choice on this thread.
struct TunedProblem {
  std::string tunable;
  uint64_t problem = 0;  // sizes and types, packed by the caller
  int64_t candidates = 0;
  int64_t choice = -1;  // below 0: there was none
};

// The measured candidate (0 .. candidates - 1) if it `fits`, else the result of `otherwise`. Takes
// no lock and allocates nothing.
int64_t choose_tuned(const Device& device, Tunable tunable, uint64_t problem, int64_t candidates,
                     c10::function_ref<bool(int64_t)> fits, c10::function_ref<int64_t()> otherwise);

// Packs ceil(log2(size)) of each size into 6 bits: sizes that are close share a measured choice.
uint64_t pack_sizes(std::initializer_list<int64_t> sizes);

TunedProblem last_tuned();
void forget_tuned();
// For tests: every problem of the tunable gets this candidate where it fits; -1 ends that.
void force_tuned(const std::string& tunable, int64_t choice);

// For the tuner. set_tuned() sets or removes (choice < 0) a choice in this process. save_tuned()
// writes all choices of a device, and returns the path of the file.
void set_tuned(DeviceIndex device, const std::string& tunable, uint64_t problem, int64_t choice);
std::string save_tuned(DeviceIndex device);

}  // namespace ocl
