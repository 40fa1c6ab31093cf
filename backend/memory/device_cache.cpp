#include "backend/memory/device_cache.h"

#include <algorithm>

#include "backend/base/environment.h"
#include "backend/base/error.h"
#include "backend/device/address_space.h"
#include "backend/queue/watchdog.h"

namespace ocl {

namespace {

std::mutex observer_mutex;

// Leaked, because it may hold Python objects.
OutOfMemoryObserver& observer() {
  static auto* const stored = new OutOfMemoryObserver;
  return *stored;
}

void notify_observer(DeviceIndex device, size_t requested, size_t total, size_t free) {
  std::unique_lock lock(observer_mutex);
  const OutOfMemoryObserver call = observer();
  lock.unlock();
  if (call) call(device, requested, total, free);
}

// Whether to ask the driver for buffers beyond the limit that it reports. Most GPU drivers do not
// enforce that limit (https://github.com/ProjectPhysX/FluidX3D/issues/132). A limit that the user
// sets is respected.
bool tries_larger_buffers(const Device& device) {
  return device.properties().type == "gpu" && !device.has(Quirk::kNoLargerBuffers) &&
         environment("OCL_MAX_BUFFER_MB").empty();
}

}  // namespace

void set_out_of_memory_observer(OutOfMemoryObserver call) {
  std::lock_guard lock(observer_mutex);
  observer() = std::move(call);
}

Block* DeviceCache::allocate(size_t bytes, int64_t stream) {
  const Stack stack = MemoryHistory::stack(KeepStacks::kState);
  std::unique_lock lock(mutex_);
  collect_pending();
  Block* block = caching_ ? cache_.take(bytes, stream) : nullptr;
  if (!block) {
    const size_t segment_bytes = caching_ ? cached_segment_size(bytes) : bytes;
    std::string refusal;
    Segment* segment = create_segment(segment_bytes, refusal);
    if (!segment) {
      cache_.stats().num_alloc_retries += 1;
      lock.unlock();
      empty_now();
      lock.lock();
      segment = create_segment(segment_bytes, refusal);
    }
    if (!segment) fail(bytes, stream, stack, refusal, lock);
    block = cache_.add_segment(segment, segment_bytes, bytes, stream);
    record(MemoryEvent::kSegmentAlloc, *block, segment_bytes, stack);
    if (stack) segment_stacks_[segment] = stack;
  }
  block->stack = stack;
  record(MemoryEvent::kAlloc, *block, bytes, stack);
  return block;
}

void DeviceCache::free(Block* block) {
  const Stack stack = MemoryHistory::stack(KeepStacks::kAll);
  std::lock_guard lock(mutex_);
  cache_.mark_freed(block);
  record(MemoryEvent::kFreeRequested, *block, block->requested, stack);
  for (const StreamId id : block->other_streams) {
    Stream& other = stream(
        c10::Stream(c10::Stream::UNSAFE, {c10::DeviceType::PrivateUse1, device_.index()}, id));
    try {
      Event event;
      event.record_enqueued(other);
      pending_.emplace_back(std::move(event), block);
      ++block->pending_events;
    } catch (const std::exception&) {
      other.drain_quietly();  // replaces the event
    }
  }
  if (block->pending_events == 0) put_back(block);
}

void DeviceCache::put_back(Block* block) {
  record(MemoryEvent::kFreeCompleted, *block, block->requested, nullptr);
  cache_.put_back(block);
  if (!caching_) release_unused();
}

void DeviceCache::record(MemoryEvent::Action action, const Block& block, size_t bytes,
                         const Stack& stack) {
  if (C10_LIKELY(!MemoryHistory::enabled())) return;
  MemoryHistory::instance().record(
      {action, device_.index(), address_of(block), bytes, block.stream, stack});
}

void DeviceCache::record_stream(Block* block, StreamId stream) {
  std::lock_guard lock(mutex_);
  auto& others = block->other_streams;
  if (plain_stream(block->stream) == stream ||
      std::find(others.begin(), others.end(), stream) != others.end()) {
    return;
  }
  others.push_back(stream);
  block->segment->shared_between_streams = true;
}

std::vector<StreamId> DeviceCache::other_streams(const BufferView& view, StreamId current) {
  std::lock_guard lock(mutex_);
  const Block* block = cache_.find(view.segment, view.offset);
  if (!block) return {};
  std::vector<StreamId> found;
  for (const StreamId id : block->other_streams) {
    if (id != current) found.push_back(id);
  }
  const StreamId own = plain_stream(block->stream);
  if (own != current) found.push_back(own);
  return found;
}

void DeviceCache::empty() {
  wait_for_pending();
  std::lock_guard lock(mutex_);
  collect_pending();
  release_unused();
}

void DeviceCache::empty_now() {
  // A driver frees a released buffer when the last command that uses it has ended.
  drain(device_.index());
  empty();
}

void DeviceCache::add_pool_user(uint64_t pool) {
  std::lock_guard lock(mutex_);
  ++pool_users_[pool];
}

void DeviceCache::remove_pool_user(uint64_t pool) {
  std::lock_guard lock(mutex_);
  if (--pool_users_[pool] == 0) pool_users_.erase(pool);
}

void DeviceCache::snapshot(std::vector<SegmentSnapshot>& segments) {
  std::lock_guard lock(mutex_);
  for (const Block* block : cache_.segments()) {
    const Segment& segment = *block->segment;
    const auto stack = segment_stacks_.find(&segment);
    auto& added = segments.emplace_back(
        SegmentSnapshot{device_.index(),
                        segment.address,
                        segment.size,
                        plain_stream(block->stream),
                        pool_of(block->stream),
                        block->small,
                        stack == segment_stacks_.end() ? nullptr : stack->second,
                        {}});
    for (; block; block = block->next) {
      added.blocks.push_back({address_of(*block), block->size, block->requested, block->allocated,
                              block->pending_events > 0, block->stack});
    }
  }
  MemoryHistory::instance().record({MemoryEvent::kSnapshot, device_.index(), 0, 0, 0, nullptr});
}

void DeviceCache::set_limit(size_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = bytes;
}

size_t DeviceCache::limit() {
  std::lock_guard lock(mutex_);
  return limit_;
}

size_t DeviceCache::free_bytes() {
  std::lock_guard lock(mutex_);
  const size_t left = limit_ - std::min(limit_, cache_.reserved());
  return std::min(left, memory_.free_bytes().value_or(left));
}

size_t DeviceCache::cached_segment_size(size_t bytes) const {
  // Rounding up must not exceed the largest allocation of the device.
  const size_t rounded = BufferCache::round_size(bytes);
  return std::max(
      rounded, std::min(BufferCache::segment_size(rounded), device_.properties().max_allocation));
}

Segment* DeviceCache::create_segment(size_t bytes, std::string& refusal) {
  refusal.clear();
  if (bytes > device_.properties().max_allocation && !tries_larger_buffers(device_)) return nullptr;
  if (cache_.reserved() + bytes > limit_) return nullptr;
  auto segment = std::make_unique<Segment>();
  segment->device = &device_;
  segment->size = bytes;
  segment->buffer = memory_.create(bytes);
  if (!segment->buffer()) {
    refusal = memory_.refusal();
    return nullptr;
  }
  segment->address = AddressSpace::instance().reserve(bytes, segment.get());
  return segment.release();
}

void DeviceCache::release_unused() {
  const auto in_use = [this](uint64_t pool) { return pool_users_.contains(pool); };
  for (Segment* segment : cache_.take_unused_segments(in_use)) {
    MemoryHistory::instance().record(
        {MemoryEvent::kSegmentFree, device_.index(), segment->address, segment->size, 0, nullptr});
    segment_stacks_.erase(segment);
    AddressSpace::instance().release(segment->address, segment->size);
    delete segment;
  }
}

// Waits without the lock: other threads free tensors meanwhile, and may hold Python's lock.
void DeviceCache::wait_for_pending() {
  std::vector<cl::Event> events;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [event, block] : pending_) events.push_back(event.handle());
  }
  for (const cl::Event& event : events) {
    watchdog::watch(device_, event);
    clWaitForEvents(1, &event());
  }
}

void DeviceCache::collect_pending() {
  while (!pending_.empty()) {
    auto& [event, block] = pending_.front();
    // A failed command no longer uses the memory; the stream raises its error.
    if (!event.over()) return;
    if (--block->pending_events == 0) put_back(block);
    pending_.pop_front();
  }
}

void DeviceCache::fail(size_t bytes, int64_t stream, const Stack& stack,
                       const std::string& driver_refusal, std::unique_lock<std::mutex>& lock) {
  auto& stats = cache_.stats();
  stats.num_ooms += 1;
  const auto allocated = stats.allocated_bytes[0].current;
  const size_t reserved = cache_.reserved(), limit = limit_;
  const std::string refusal = driver_refusal.empty() ? "" : str(" (", driver_refusal, ")");
  lock.unlock();  // the observer and Python's error may run code that frees tensors
  const size_t free = limit - std::min(limit, reserved);
  MemoryHistory::instance().record(
      {MemoryEvent::kOutOfMemory, device_.index(), free, bytes, stream, stack});
  notify_observer(device_.index(), bytes, limit, free);
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(bytes), allocated, reserved,
                                   {c10::DeviceType::PrivateUse1, device_.index()});
  const auto& properties = device_.properties();
  const std::string what =
      str("cannot allocate ", format_bytes(bytes), " on ocl:", int{device_.index()}, ": ");
  const bool too_large = bytes > properties.max_allocation &&
                         (!driver_refusal.empty() || !tries_larger_buffers(device_));
  TORCH_CHECK_WITH(OutOfMemoryError, !too_large, what, "the largest single buffer is ",
                   format_bytes(properties.max_allocation), " (CL_DEVICE_MAX_MEM_ALLOC_SIZE)",
                   refusal,
                   ". Split the tensor, or use smaller batches. OCL_MAX_BUFFER_MB sets another "
                   "limit (docs/environment.md)");
  TORCH_CHECK_WITH(
      OutOfMemoryError, false, what, format_bytes(allocated), " are in use by tensors and ",
      format_bytes(reserved - allocated), " are cached, out of ", format_bytes(limit),
      limit < properties.total_memory ? " that this process may use" : " of the device", refusal,
      ". Free tensors, use smaller batches, or call torch.ocl.empty_cache()",
      refusal.empty() ? ". OCL_MEMORY_MB sets another limit (docs/environment.md)" : "");
}

}  // namespace ocl
