// The work of launches whose atomic writes may all go to one element.
#pragma once

#include "backend/device/device.h"

namespace ocl {

// Atomic exchanges of a launch, at most. A million on one element took a GPU 8 s
// (ProjectPhysX/FluidX3D#217).
constexpr double kMostExchanges = 65536;

// For Arguments::enqueue(): launches have at most `most` of the `writes`. 0: one launch has all.
inline double work_of_writes(const Device& device, double writes, double most = kMostExchanges) {
  return writes > most ? device.parameters().grid.work * writes / most : 0;
}

}  // namespace ocl
