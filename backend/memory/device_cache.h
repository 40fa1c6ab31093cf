// The memory cache of one device: adds OpenCL's calls, events and locking to BufferCache's policy.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/base/environment.h"
#include "backend/device/buffer_view.h"
#include "backend/memory/buffer_cache.h"
#include "backend/memory/device_memory.h"
#include "backend/memory/memory_history.h"
#include "backend/queue/event.h"
#include "backend/queue/stream.h"

namespace ocl {

struct BlockSnapshot {
  uintptr_t address;
  size_t size, requested;
  bool allocated, awaiting_free;  // both false: cached
  Stack stack;
};

struct SegmentSnapshot {
  DeviceIndex device;
  uintptr_t address;
  size_t size;
  StreamId stream;
  uint64_t pool;  // the pool of graphs; 0: none
  bool small;
  Stack stack;
  std::vector<BlockSnapshot> blocks;
};

inline uintptr_t address_of(const Block& block) { return block.segment->address + block.offset; }

// Called before an OutOfMemoryError is raised, without locks held. Bytes: `requested` by the
// caller, `total` that the process may use, `free` of these.
using OutOfMemoryObserver =
    std::function<void(DeviceIndex device, size_t requested, size_t total, size_t free)>;
void set_out_of_memory_observer(OutOfMemoryObserver observer);

class DeviceCache {
 public:
  explicit DeviceCache(Device& device)
      : device_(device),
        memory_(device),
        caching_(environment("OCL_MEMORY_CACHING") != "0"),
        limit_(device.properties().total_memory) {}

  Device& device() { return device_; }

  // `stream`: a pool_stream().
  Block* allocate(size_t bytes, int64_t stream);
  void free(Block* block);
  void record_stream(Block* block, StreamId stream);
  // Streams other than `current` that use the block at the view.
  std::vector<StreamId> other_streams(const BufferView& view, StreamId current);
  void empty();
  // Releases cached memory after all commands have ended, so that the driver frees it at once.
  void empty_now();
  // The memory of a pool is kept while the pool has users.
  void add_pool_user(uint64_t pool);
  void remove_pool_user(uint64_t pool);
  // Adds this device's segments.
  void snapshot(std::vector<SegmentSnapshot>& segments);

  void set_limit(size_t bytes);
  size_t limit();
  // Bytes that can still be allocated.
  size_t free_bytes();

  template <typename Body>
  auto locked(Body&& body) {
    std::lock_guard lock(mutex_);
    return body(cache_);
  }

 private:
  size_t cached_segment_size(size_t bytes) const;
  // Returns nullptr when memory ran out; if the driver refused, `refusal` has its error. Other
  // failures throw.
  Segment* create_segment(size_t bytes, std::string& refusal);
  void release_unused();
  void wait_for_pending();  // call without the lock
  void collect_pending();
  void put_back(Block* block);
  void record(MemoryEvent::Action action, const Block& block, size_t bytes, const Stack& stack);
  [[noreturn]] void fail(size_t bytes, int64_t stream, const Stack& stack,
                         const std::string& refusal, std::unique_lock<std::mutex>& lock);

  Device& device_;
  std::mutex mutex_;
  DeviceMemory memory_;
  BufferCache cache_;
  const bool caching_;  // false: each block is a buffer of exactly its size
  size_t limit_;
  std::deque<std::pair<Event, Block*>> pending_;
  std::unordered_map<const Segment*, Stack> segment_stacks_;
  std::unordered_map<uint64_t, size_t> pool_users_;
};

}  // namespace ocl
