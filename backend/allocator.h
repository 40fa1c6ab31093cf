// The caching allocator of device memory, as an implementation of torch's c10::DeviceAllocator.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Storage.h>

#include "backend/buffer_cache.h"
#include "backend/buffer_view.h"
#include "backend/stream.h"
#include "backend/torch_version.h"

namespace ocl {

class DeviceCache;
struct SegmentSnapshot;

class Allocator final : public c10::DeviceAllocator {
 public:
  static Allocator& instance();

  // Memory on the current device for its current stream; during a capture, from the graph's pool.
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  // Whether lazy clones (kernels/core/lazy_clone.h) may share the memory.
#if OCL_HAS_LAZY_CLONES
  bool is_simple_data_ptr(const c10::DataPtr& pointer) const override;
#endif
  // Enqueues a device copy; both addresses are on the device of `destination`.
  void copy_data(void* destination, const void* source, size_t bytes) const override;

  bool initialized() override { return ocl::initialized(); }
  void emptyCache(c10::MempoolId_t mempool_id = {0, 0}) override;
  // As emptyCache(), for one device, after all its commands have ended.
  void empty_now(DeviceIndex device);
  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) override;
  void resetAccumulatedStats(DeviceIndex device) override;
  void resetPeakStats(DeviceIndex device) override;
  // Free and total bytes. OpenCL does not tell what other processes use, so "free" means not
  // reserved by this one.
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex device);

  // Limits what this process reserves to a fraction (0 to 1) of the device's memory.
  void set_memory_fraction(double fraction, DeviceIndex device);
  double memory_fraction(DeviceIndex device);

  // All segments of all devices (device_cache.h).
  std::vector<SegmentSnapshot> snapshot();

  // Sets the pool for this thread's allocations on the device outside of captures; 0: the common
  // pool. Returns the former one.
  static uint64_t exchange_thread_pool(uint64_t pool, DeviceIndex device);

  // A number for a new pool of memory that graphs share. Its memory stays while it has users.
  static uint64_t new_pool();
  void add_pool_user(uint64_t pool, DeviceIndex device);
  void remove_pool_user(uint64_t pool, DeviceIndex device);

  // Streams other than `current` on which the block at `address` was recorded.
  std::vector<StreamId> other_streams(const BufferView& view, StreamId current);

 private:
  DeviceCache& cache(DeviceIndex device);
};

// Gives the storage new memory of this many bytes, and copies as many of the old bytes as fit.
void resize_storage(const c10::Storage& storage, size_t bytes);

// Calls a function that enqueues a command and returns OpenCL's code. Where the driver lacks memory
// for the command, this frees what is cached and calls it once more.
template <typename Enqueue>
cl_int enqueue_with_memory(DeviceIndex device, Enqueue&& enqueue) {
  const cl_int code = enqueue();
  if (C10_LIKELY(code != CL_MEM_OBJECT_ALLOCATION_FAILURE)) return code;
  Allocator::instance().empty_now(device);
  return enqueue();
}

}  // namespace ocl
