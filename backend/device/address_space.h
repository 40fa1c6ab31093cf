// The addresses that tensors on ocl show as data_ptr(): a reserved range that no memory backs.
// Pointer arithmetic and view offsets work as everywhere in PyTorch, a dereference on the host
// faults at once, and no device needs shared virtual memory. find() looks up the segment of an
// address without a lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace ocl {

struct Segment;

class AddressSpace {
 public:
  // A segment begins at a granule's first byte, so find() is one access to a table indexed by
  // granule.
  static constexpr size_t kGranule = size_t{2} << 20;

  static AddressSpace& instance();

  // Assigns addresses to a segment of `size` bytes.
  uintptr_t reserve(size_t size, Segment* segment);
  void release(uintptr_t address, size_t size);

  // The segment that contains the address, or nullptr.
  Segment* find(const void* pointer) const noexcept;

 private:
  AddressSpace();

  uintptr_t base_ = 0;
  size_t size_ = 0;
  std::atomic<Segment*>* table_ = nullptr;
  std::mutex mutex_;
  std::map<uintptr_t, size_t> free_;  // address -> bytes
};

}  // namespace ocl
