// Sums whose terms may all go to one element: whether to add atomically, and how much work a launch
// may have.
#pragma once

#include <ATen/Context.h>

#include "backend/device/device.h"

namespace ocl {

// The most atomic exchanges per launch. A million exchanges on one element took a GPU 8 s
// (ProjectPhysX/FluidX3D#217).
constexpr double kMostExchanges = 65536;

// The most terms that a work-item of a GPU adds one after another in one launch. A desktop's GPU is
// reset if a launch takes seconds.
constexpr int64_t kMostSumsInOrder = 4096;

// Whether many work-items add to one number of the type atomically, in any order. Otherwise one
// work-item adds all terms in order.
inline bool adds_atomically(const Device& device, c10::ScalarType type) {
  return device.family() == KernelFamily::kGpu &&
         (type != c10::ScalarType::Double || device.properties().has_int64_atomics) &&
         !at::globalContext().deterministicAlgorithms();
}

// The work to pass to Arguments::enqueue(), so that a launch has at most `most` of the `writes`. 0:
// one launch may have all.
inline double work_of_writes(const Device& device, double writes, double most = kMostExchanges) {
  return writes > most ? device.parameters().grid.work * writes / most : 0;
}

}  // namespace ocl
