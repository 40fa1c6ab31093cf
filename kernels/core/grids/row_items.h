// How the GPU family shares rows among work-items; kernels/core/cl/row_items.clh has the loops.
#pragma once

#include <ATen/ceil_div.h>

#include <algorithm>
#include <bit>

#include "backend/launch/launch.h"

namespace ocl {

struct RowItems {
  size_t items;  // work-items per row, a power of two
  size_t keep;   // elements that a work-item keeps in registers; 0: each pass reads the row again

  uint32_t shift() const { return static_cast<uint32_t>(std::countr_zero(items)); }
  Range global(size_t rows, size_t group) const { return {at::round_up(rows * items, group)}; }
};

// Chooses few work-items per row, because they wait for each other at each step of a sum, but
// enough to load whole cache lines. `group`: the most work-items, a power of two.
inline RowItems row_items(size_t size, size_t group) {
  constexpr size_t kLine = 32, kFewest = 4, kEach = 8, kMost = 16;
  const auto for_each = [&](size_t elements) {
    return std::bit_ceil(at::ceil_div(size, elements));
  };
  const size_t items =
      std::min(std::max(for_each(kEach), std::min(for_each(kFewest), kLine)), group);
  const size_t keep = std::max(kFewest, std::bit_ceil(at::ceil_div(size, items)));
  return {items, size == 0 || keep > kMost ? 0 : keep};
}

// Adapts `wanted` to a kernel with groups of `group` work-items. If those are too few for `wanted`,
// no elements are kept.
inline RowItems for_group(const RowItems& wanted, size_t group) {
  return group >= wanted.items ? wanted : RowItems{group, 0};
}

}  // namespace ocl
