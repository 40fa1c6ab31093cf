#include "backend/device/address_space.h"

#include <ATen/ceil_div.h>

#include "backend/base/error.h"
#include "backend/base/system.h"

namespace ocl {
namespace {

constexpr size_t kLargest = size_t{4} << 40;    // a small part of a 47-bit address space
constexpr size_t kSmallest = size_t{16} << 30;  // under a limit (ulimit -v)

size_t in_granules(size_t size) { return at::round_up(size, AddressSpace::kGranule); }

}  // namespace

AddressSpace& AddressSpace::instance() {
  static auto* const space = new AddressSpace;
  return *space;
}

AddressSpace::AddressSpace() {
  void* reserved = nullptr;
  for (size_ = kLargest; size_ >= kSmallest && !reserved; size_ /= 2) {
    reserved = reserve_addresses(size_ + kGranule);
    if (reserved) break;
  }
  TORCH_CHECK(reserved, "cannot reserve ", format_bytes(kSmallest),
              " of addresses for ocl tensors: is the address space limited (ulimit -v)?");
  base_ = in_granules(reinterpret_cast<uintptr_t>(reserved));
  table_ = static_cast<std::atomic<Segment*>*>(reserve_zeros(size_ / kGranule * sizeof(*table_)));
  TORCH_CHECK(table_, "cannot allocate the segment table of ocl");
  free_[base_] = size_;
}

uintptr_t AddressSpace::reserve(size_t size, Segment* segment) {
  const size_t rounded = in_granules(size);
  std::lock_guard lock(mutex_);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [address, available] = *it;
    if (available < rounded) continue;
    free_.erase(it);
    if (available > rounded) free_[address + rounded] = available - rounded;
    const size_t first = (address - base_) / kGranule;
    for (size_t i = first; i < first + rounded / kGranule; ++i) {
      table_[i].store(segment, std::memory_order_release);
    }
    return address;
  }
  TORCH_CHECK_WITH(OutOfMemoryError, false, "no ", format_bytes(size),
                   " of addresses are left for ocl tensors, out of ", format_bytes(size_));
}

void AddressSpace::release(uintptr_t address, size_t size) {
  size_t rounded = in_granules(size);
  std::lock_guard lock(mutex_);
  const size_t first = (address - base_) / kGranule;
  for (size_t i = first; i < first + rounded / kGranule; ++i) {
    table_[i].store(nullptr, std::memory_order_release);
  }
  // Merge with the adjacent free ranges.
  auto next = free_.lower_bound(address);
  if (next != free_.end() && address + rounded == next->first) {
    rounded += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == address) {
      previous->second += rounded;
      return;
    }
  }
  free_[address] = rounded;
}

Segment* AddressSpace::find(const void* pointer) const noexcept {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  if (C10_UNLIKELY(address < base_ || address >= base_ + size_)) return nullptr;
  return table_[(address - base_) / kGranule].load(std::memory_order_acquire);
}

}  // namespace ocl
