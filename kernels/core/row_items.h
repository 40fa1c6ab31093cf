// How the GPU family shares rows among work-items; kernels/core/cl/row_items.clh has the loops.
#pragma once

#include <ATen/ceil_div.h>

#include <algorithm>
#include <bit>

#include "backend/launch.h"

namespace ocl {

struct RowItems {
  size_t items;  // of a row, a power of two
  size_t keep;   // elements of a row in a work-item's registers; 0: none, the row is read again

  uint32_t shift() const { return static_cast<uint32_t>(std::countr_zero(items)); }
  Range global(size_t rows, size_t group) const { return {at::round_up(rows * items, group)}; }
};

// Few work-items, since they wait for each other at each step of a sum, but enough to load whole
// lines at once. `group`: the most work-items, a power of two.
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

// Finds the kernel of a GPU by `find(keep)`, which defines KEEP if it is not 0, and how it shares
// rows of `size` elements. A kernel may have smaller groups than the device.
template <typename Find>
const Kernel& find_for_rows(const Device& device, size_t size, RowItems* shared, Find&& find) {
  *shared = row_items(size, device.parameters().work_group_size);
  const Kernel* kernel = &find(shared->keep);
  if (shared->keep * std::min(shared->items, kernel->group) < size && shared->keep) {
    shared->keep = 0;
    kernel = &find(shared->keep);
  }
  shared->items = std::min(shared->items, kernel->group);
  return *kernel;
}

}  // namespace ocl
