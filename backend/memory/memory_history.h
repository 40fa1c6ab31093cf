// Records the allocator's actions, with the stacks of its callers, for
// torch.ocl.record_memory_history(). While it is off, an allocation costs one load of a flag.
//
//   const auto stack = MemoryHistory::stack(KeepStacks::kState);  // without locks held
//   MemoryHistory::instance().record({MemoryEvent::kAlloc, device, address, bytes, stream, stack});
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace ocl {

using Stack = std::shared_ptr<c10::GatheredContext>;

// Which stacks are kept. kState: the stacks of memory in use; kAlloc: those of past allocations,
// too; kAll: those of releases, too.
enum class KeepStacks { kNever, kState, kAlloc, kAll };

struct MemoryEvent {
  enum Action {
    kAlloc,
    kFreeRequested,
    kFreeCompleted,
    kSegmentAlloc,
    kSegmentFree,
    kSnapshot,
    kOutOfMemory,
    kActions
  };
  // The names that PyTorch's memory viewer knows.
  static constexpr const char* kNames[kActions] = {
      "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "snapshot",
      "oom"};

  Action action;
  c10::DeviceIndex device;
  uintptr_t address;  // for kOutOfMemory: the number of free bytes
  size_t bytes;
  int64_t stream;
  Stack stack;
  int64_t time = 0;  // microseconds since 1970
};

class MemoryHistory {
 public:
  struct Settings {
    KeepStacks stacks = KeepStacks::kNever;
    Stack (*gather)() = nullptr;
    size_t max_events = 1;  // per device
    bool skipped[MemoryEvent::kActions] = {};
  };

  static MemoryHistory& instance();

  void start(const Settings& settings, bool forget_events);
  // Also deletes the events.
  void stop();

  static bool enabled() { return enabled_.load(std::memory_order_relaxed); }
  // The caller's stack, if stacks of this kind are kept. May take Python's lock: hold no other.
  static Stack stack(KeepStacks kind) {
    return C10_LIKELY(!enabled()) ? nullptr : instance().gather(kind);
  }
  void record(MemoryEvent event);
  // The events, in order for each device.
  std::vector<MemoryEvent> events();

 private:
  Stack gather(KeepStacks kind);

  static inline std::atomic<bool> enabled_{false};
  std::mutex mutex_;
  Settings settings_;
  std::map<c10::DeviceIndex, std::deque<MemoryEvent>> events_;
};

}  // namespace ocl
