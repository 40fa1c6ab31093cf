// Grids for GPU kernels in which a work-group works on one long sequence (stripes.clh). A single
// work-item that reads millions of elements takes seconds, and then systems reset the GPU.
#pragma once

#include <ATen/ceil_div.h>

#include <algorithm>
#include <bit>

#include "backend/launch/launch.h"

namespace ocl {

constexpr size_t kLongSequence = 512;   // rows; one work-item reads shorter sequences
constexpr size_t kStripeGroup = 256;    // the most work-items of a group
constexpr size_t kStripeGroups = 1024;  // the most groups in y; each examines its share

// Whether a sequence among `rows` rows may be long for the device.
inline bool may_be_long(const Device& device, size_t rows) {
  return device.family() == KernelFamily::kGpu && rows > kLongSequence;
}

// `group`: the most work-items of a work-group.
inline void define_stripes(Defines& defines, const Device& device, size_t group) {
  if (device.family() == KernelFamily::kCpu) return;
  defines.set("MOST", static_cast<int64_t>(kLongSequence))
      .set("GROUP", static_cast<int64_t>(std::min(group, kStripeGroup)));
}

// StripeShare of stripes.clh.
struct StripeShare {
  uint32_t lanes, groups;
};
struct StripeGrid {
  Range global, local;
  StripeShare share;
};

// Each group has a share of `sequences` and a block of columns. The fewer columns, the more
// stripes.
inline StripeGrid stripe_grid(const Kernel& kernel, size_t sequences, size_t columns) {
  const size_t group = std::min(kernel.group, kStripeGroup);
  const size_t lanes = std::min({std::bit_ceil(columns), size_t{16}, group});
  const size_t groups = std::min(sequences, kStripeGroups);
  return {{at::ceil_div(columns, lanes) * group, groups},
          {group, 1},
          {static_cast<uint32_t>(lanes), static_cast<uint32_t>(groups)}};
}

}  // namespace ocl
