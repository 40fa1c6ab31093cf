// The caching allocator of device memory, as an implementation of torch's c10::DeviceAllocator.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Storage.h>

#include "backend/base/torch_version.h"
#include "backend/device/buffer_view.h"
#include "backend/memory/buffer_cache.h"
#include "backend/queue/memory_hooks.h"
#include "backend/queue/stream.h"

namespace ocl {

class DeviceCache;
struct SegmentSnapshot;

class Allocator final : public c10::DeviceAllocator {
 public:
  static Allocator& instance();

  // Memory on the current device for its current stream; during a capture, from the graph's pool.
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  // Whether lazy clones (kernels/core/tensors/lazy_clone.h) may share the memory.
#if OCL_HAS_LAZY_CLONES
  bool is_simple_data_ptr(const c10::DataPtr& pointer) const override;
#endif
  // Enqueues a copy on the device that has both addresses.
  void copy_data(void* destination, const void* source, size_t bytes) const override;

  bool initialized() override { return ocl::initialized(); }
  void emptyCache(c10::MempoolId_t mempool_id = {0, 0}) override;
  // emptyCache() for one device, after all its commands have ended.
  void empty_now(DeviceIndex device);
  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) override;
  void resetAccumulatedStats(DeviceIndex device) override;
  void resetPeakStats(DeviceIndex device) override;
  // Free and total bytes. OpenCL has no query for the memory that other processes use, so "free"
  // means not reserved by this process.
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex device);

  // Limits what this process reserves to a fraction (0 to 1) of the device's memory.
  void set_memory_fraction(double fraction, DeviceIndex device);
  double memory_fraction(DeviceIndex device);

  // All segments of all devices (device_cache.h).
  std::vector<SegmentSnapshot> snapshot();

  // Sets the pool for this thread's allocations on the device outside of captures; 0: the common
  // pool. Returns the former one.
  static uint64_t exchange_thread_pool(uint64_t pool, DeviceIndex device);

  // A number for a new memory pool, which graphs can share. The memory is kept while the pool has
  // users.
  static uint64_t new_pool();
  void add_pool_user(uint64_t pool, DeviceIndex device);
  void remove_pool_user(uint64_t pool, DeviceIndex device);

  // Streams other than `current` on which the block at `address` was recorded.
  std::vector<StreamId> other_streams(const BufferView& view, StreamId current);
  // Bytes from the address to the end of its allocation, or for memory from other code, to the end
  // of the buffer.
  size_t bytes_from(const BufferView& view);
  // Searches all segments.
  FaultOrigin fault_origin(const BufferView& view);
  // Notes that this thread computes with the memory (fault_thread.h).
  static void note_use(const c10::DataPtr& pointer, uint64_t thread) noexcept;

 private:
  DeviceCache& cache(DeviceIndex device);
};

// Gives the storage new memory of this many bytes, and copies as many of the old bytes as fit. The
// rest is zeroed, or left as it is. It must be zeroed where the size comes from an untrusted file:
// old contents may be somebody's data.
enum class NewBytes { kZero, kAny };
void resize_storage(const c10::Storage& storage, size_t bytes, NewBytes rest);

}  // namespace ocl
