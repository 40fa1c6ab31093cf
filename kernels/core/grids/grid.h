// Grids for kernels that serve both families: they loop over units of adjacent elements, such as
// rows. grid.clh has the loops.
#pragma once

#include <ATen/ceil_div.h>

#include <algorithm>
#include <bit>

#include "backend/launch/launch.h"

namespace ocl {

// The size of a GPU's work-groups if there are only about a thousand work-items: larger groups
// would leave processors idle.
constexpr size_t kFewItemsGroup = 32;

struct UnitGrid {
  Range global, local;
  uint64_t per_item;  // units per work-item
};

// A grid for `units` units of `inner` elements each. `cost`: additions per element.
inline UnitGrid unit_grid(const Device& device, size_t units, size_t inner, size_t cost = 1) {
  const DeviceParameters& parameters = device.parameters();
  if (device.family() == KernelFamily::kGpu) {
    const size_t x = std::min<size_t>(std::bit_ceil(inner), 64);
    const size_t y = 64 / x;
    const Range local{.x = x, .y = y, .may_shrink = true};
    return {{at::round_up(inner, x), at::round_up(units, y)}, local, 1};
  }
  const size_t tasks =
      std::clamp<size_t>(units * inner * cost / parameters.grain, 1, parameters.tasks);
  const size_t per_item = at::ceil_div(units, tasks);
  const size_t rows = at::ceil_div(units, per_item);
  return {{std::clamp<size_t>(tasks / rows, 1, inner), rows}, {1, 1}, per_item};
}

// How a CPU-family launch distributes rows, or other units that are not split, among its tasks.
struct TaskShares {
  size_t tasks;
  uint64_t per_task;
};

// `cost`: additions for all units together.
inline TaskShares task_shares(const Device& device, size_t units, size_t cost) {
  const DeviceParameters& parameters = device.parameters();
  const size_t tasks = std::clamp<size_t>(cost / parameters.grain, 1, parameters.tasks);
  const size_t per_task = at::ceil_div(units, tasks);
  return {at::ceil_div(units, per_task), per_task};
}

// The number of parts that each of `independent` reductions of `size` elements is split into, so
// that no processor idles. No part is empty, and all but the last have at least `least` elements.
// `serial`: one work-item takes a part. On a GPU it waits for each element, so parts are short.
inline size_t parts_for(const Device& device, size_t independent, size_t size, size_t least,
                        bool serial = false) {
  constexpr size_t kSerialElements = 4096, kMostSerialParts = 4096;
  const bool cpu = device.family() == KernelFamily::kCpu;
  const size_t workers =
      cpu ? device.parameters().tasks : device.properties().max_compute_units * 4;
  const size_t wanted =
      std::max(at::ceil_div(workers, independent),
               serial && !cpu ? std::min(size / kSerialElements, kMostSerialParts) : 1);
  if (wanted == 1) return 1;
  const size_t parts = std::clamp<size_t>(size / least, 1, wanted);
  const size_t share = at::ceil_div(size, parts);
  return at::ceil_div(size, share);
}

// Defines TASKS for grid.clh on CPU-family devices.
inline void define_grid(Defines& defines, const Device& device) {
  if (device.family() == KernelFamily::kCpu) defines.set("TASKS", 1);
}

}  // namespace ocl
