// Launches whose writes may all go to one element: whether they are atomic, and how many there are.
#pragma once

#include <ATen/Context.h>

#include "backend/device/device.h"

namespace ocl {

// Atomic exchanges of a launch, at most. A million on one element took a GPU 8 s
// (ProjectPhysX/FluidX3D#217).
constexpr double kMostExchanges = 65536;

// Sums that a work-item of a GPU adds in one launch, one after another. A desktop's GPU is reset if
// a launch takes seconds.
constexpr int64_t kMostSumsInOrder = 4096;

// Whether many work-items add to one number of the type, so that the order of sums is any. Else one
// work-item adds all, in order.
inline bool adds_atomically(const Device& device, c10::ScalarType type) {
  return device.family() == KernelFamily::kGpu &&
         (type != c10::ScalarType::Double || device.properties().has_int64_atomics) &&
         !at::globalContext().deterministicAlgorithms();
}

// For Arguments::enqueue(): launches have at most `most` of the `writes`. 0: one launch has all.
inline double work_of_writes(const Device& device, double writes, double most = kMostExchanges) {
  return writes > most ? device.parameters().grid.work * writes / most : 0;
}

}  // namespace ocl
