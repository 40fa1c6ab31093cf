#include "backend/allocator.h"

#include <c10/core/DeviceGuard.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <deque>

#include "backend/address_space.h"
#include "backend/error.h"
#include "backend/event.h"
#include "backend/transfer.h"

namespace ocl {

// The cache of one device, and the work of OpenCL around the policy.
class DeviceCache {
 public:
  explicit DeviceCache(Device& device)
      : device_(device), limit_(device.properties().total_memory) {}

  Device& device() { return device_; }

  Block* allocate(size_t bytes, StreamId stream) {
    std::unique_lock lock(mutex_);
    collect_pending(/*wait=*/false);
    if (Block* block = cache_.take(bytes, stream)) return block;
    // Rounding up must not put a request beyond what the device can serve.
    const size_t rounded = BufferCache::round_size(bytes);
    const size_t segment_bytes = std::max(
        rounded, std::min(BufferCache::segment_size(rounded), device_.properties().max_allocation));
    Segment* segment = create_segment(segment_bytes);
    if (!segment) {
      cache_.stats().num_alloc_retries += 1;
      collect_pending(/*wait=*/true);
      release_unused();
      segment = create_segment(segment_bytes);
    }
    if (!segment) fail(bytes, lock);
    return cache_.add_segment(segment, segment_bytes, bytes, stream);
  }

  void free(Block* block) {
    std::lock_guard lock(mutex_);
    cache_.mark_freed(block);
    for (const StreamId id : block->other_streams) {
      Event event;
      event.record(stream(
          c10::Stream(c10::Stream::UNSAFE, {c10::DeviceType::PrivateUse1, device_.index()}, id)));
      pending_.emplace_back(std::move(event), block);
      ++block->pending_events;
    }
    if (block->pending_events == 0) cache_.put_back(block);
  }

  void record_stream(Block* block, StreamId stream) {
    std::lock_guard lock(mutex_);
    auto& others = block->other_streams;
    if (block->stream == stream || std::find(others.begin(), others.end(), stream) != others.end())
      return;
    others.push_back(stream);
    block->segment->shared_between_streams = true;
  }

  std::vector<StreamId> other_streams(const BufferView& view, StreamId current) {
    std::lock_guard lock(mutex_);
    for (const Block* block : cache_.segments()) {
      if (block->segment != view.segment) continue;
      while (block && block->offset + block->size <= view.offset) block = block->next;
      std::vector<StreamId> found;
      for (const StreamId id : block->other_streams) {
        if (id != current) found.push_back(id);
      }
      if (block->stream != current) found.push_back(block->stream);
      return found;
    }
    return {};
  }

  void empty() {
    std::lock_guard lock(mutex_);
    collect_pending(/*wait=*/true);
    release_unused();
  }

  template <typename Body>
  auto locked(Body&& body) {
    std::lock_guard lock(mutex_);
    return body(cache_);
  }

  void set_limit(size_t bytes) {
    std::lock_guard lock(mutex_);
    limit_ = bytes;
  }

  size_t limit() {
    std::lock_guard lock(mutex_);
    return limit_;
  }

 private:
  // nullptr when memory ran out; other failures throw.
  Segment* create_segment(size_t bytes) {
    if (bytes > device_.properties().max_allocation || cache_.reserved() + bytes > limit_) {
      return nullptr;
    }
    auto segment = std::make_unique<Segment>();
    segment->device = &device_;
    segment->size = bytes;
    const cl::Context& context = device_.context();
    cl_int code = CL_SUCCESS;
    // ALLOC_HOST_PTR makes maps free of copies on devices that share the host's memory.
    const cl_mem_flags flags =
        CL_MEM_READ_WRITE |
        (device_.properties().host_unified_memory ? CL_MEM_ALLOC_HOST_PTR : cl_mem_flags{0});
    segment->buffer = cl::Buffer(clCreateBuffer(context(), flags, bytes, nullptr, &code));
    if (is_out_of_memory(code)) return nullptr;
    if (code != CL_SUCCESS) {
      raise(code, str("cannot allocate ", format_bytes(bytes), " on ", device_.label()),
            "clCreateBuffer");
    }
    advise_huge_pages(*segment);
    segment->address = AddressSpace::instance().reserve(bytes, segment.get());
    return segment.release();
  }

  // The memory of CPU devices is the process's own. Kernels then meet a page fault and an address
  // translation for 2 MiB instead of 4 KiB, where the system leaves the choice to programs.
  void advise_huge_pages(const Segment& segment) {
#ifdef MADV_HUGEPAGE
    constexpr uintptr_t kHugePage = uintptr_t{2} << 20;
    const DeviceProperties& properties = device_.properties();
    if (properties.type != "cpu" || !properties.host_unified_memory ||
        segment.size < 2 * kHugePage) {
      return;
    }
    const cl_command_queue queue = current_stream(device_.index()).queue()();
    cl_int code = CL_SUCCESS;
    // Only the address matters: nothing waits for the map.
    void* const start = clEnqueueMapBuffer(queue, segment.buffer(), CL_FALSE, CL_MAP_READ, 0,
                                           segment.size, 0, nullptr, nullptr, &code);
    if (code != CL_SUCCESS) return;
    const auto begin = (reinterpret_cast<uintptr_t>(start) + kHugePage - 1) & ~(kHugePage - 1);
    const auto end = (reinterpret_cast<uintptr_t>(start) + segment.size) & ~(kHugePage - 1);
    // A hint: a system without huge pages refuses it.
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
    clEnqueueUnmapMemObject(queue, segment.buffer(), start, 0, nullptr, nullptr);
#endif
  }

  void release_unused() {
    for (Segment* segment : cache_.take_unused_segments()) {
      AddressSpace::instance().release(segment->address, segment->size);
      delete segment;
    }
  }

  void collect_pending(bool wait) {
    while (!pending_.empty()) {
      auto& [event, block] = pending_.front();
      if (wait) event.synchronize();
      if (!wait && !event.query()) return;
      if (--block->pending_events == 0) cache_.put_back(block);
      pending_.pop_front();
    }
  }

  [[noreturn]] void fail(size_t bytes, std::unique_lock<std::mutex>& lock) {
    auto& stats = cache_.stats();
    stats.num_ooms += 1;
    const auto allocated = stats.allocated_bytes[0].current;
    const size_t reserved = cache_.reserved(), limit = limit_;
    lock.unlock();  // formatting may run Python code that frees tensors
    c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(bytes), allocated, reserved,
                                     {c10::DeviceType::PrivateUse1, device_.index()});
    const auto& properties = device_.properties();
    const std::string what =
        str("cannot allocate ", format_bytes(bytes), " on ocl:", int{device_.index()}, ": ");
    TORCH_CHECK_WITH(OutOfMemoryError, bytes <= properties.max_allocation, what,
                     "the largest single buffer is ", format_bytes(properties.max_allocation),
                     " (CL_DEVICE_MAX_MEM_ALLOC_SIZE). Split the tensor, or use smaller batches");
    TORCH_CHECK_WITH(
        OutOfMemoryError, false, what, format_bytes(allocated), " are in use by tensors and ",
        format_bytes(reserved - allocated), " are cached, out of ", format_bytes(limit),
        limit < properties.total_memory ? " that this process may use" : " of the device",
        ". Free tensors, use smaller batches, or call torch.ocl.empty_cache()");
  }

  Device& device_;
  std::mutex mutex_;
  BufferCache cache_;
  size_t limit_;
  std::deque<std::pair<Event, Block*>> pending_;
};

namespace {

std::array<std::atomic<DeviceCache*>, 64> caches{};
std::mutex caches_mutex;

// For profile_memory=True of torch.profiler, with the bytes that are really in use.
void report(DeviceCache& cache, void* address, int64_t bytes) {
  if (C10_LIKELY(!c10::memoryProfilingEnabled())) return;
  const auto [allocated, reserved] = cache.locked([](BufferCache& cache) {
    return std::pair(cache.stats().allocated_bytes[0].current, cache.reserved());
  });
  c10::reportMemoryUsageToProfiler(address, bytes, allocated, reserved,
                                   {c10::DeviceType::PrivateUse1, cache.device().index()});
}

void* address_of(const Block& block) {
  return reinterpret_cast<void*>(block.segment->address + block.offset);
}

void delete_block(void* context) {
  auto* block = static_cast<Block*>(context);
  try {
    DeviceCache& cache = *caches[block->segment->device->index()].load(std::memory_order_acquire);
    void* const address = address_of(*block);
    const auto bytes = static_cast<int64_t>(block->size);
    cache.free(block);
    report(cache, address, -bytes);
  } catch (const std::exception& error) {
    TORCH_WARN("ocl: a freed tensor's memory could not be taken back: ", error.what());
  }
}

}  // namespace

Allocator& Allocator::instance() {
  static auto* const allocator = new Allocator;
  return *allocator;
}

DeviceCache& Allocator::cache(DeviceIndex index) {
  Device& found = device(index);  // checks the index
  if (DeviceCache* existing = caches[index].load(std::memory_order_acquire)) return *existing;
  std::lock_guard lock(caches_mutex);
  if (!caches[index].load()) caches[index].store(new DeviceCache(found));
  return *caches[index].load();
}

c10::DataPtr Allocator::allocate(size_t bytes) {
  const DeviceIndex index = current_device();
  DeviceCache& device_cache = cache(index);
  const c10::Device where(c10::DeviceType::PrivateUse1, index);
  if (bytes == 0) return {nullptr, nullptr, &delete_block, where};
  Block* block = device_cache.allocate(bytes, current_stream(index).id());
  void* const address = address_of(*block);
  report(device_cache, address, static_cast<int64_t>(block->size));
  return {address, block, &delete_block, where};
}

// Only for allocators whose context is the data pointer; ours has more to remember.
c10::DeleterFnPtr Allocator::raw_deleter() const { return nullptr; }

void Allocator::copy_data(void* destination, const void* source, size_t bytes) const {
  if (bytes == 0) return;
  const BufferView target = resolve(destination);
  copy_on_device(current_stream(target.device().index()), target, resolve(source), bytes);
}

void Allocator::emptyCache(c10::MempoolId_t) {
  for (auto& each : caches) {
    if (DeviceCache* existing = each.load(std::memory_order_acquire)) existing->empty();
  }
}

void Allocator::recordStream(const c10::DataPtr& pointer, c10::Stream stream) {
  if (!pointer.get() || pointer.get_deleter() != &delete_block) return;  // memory from elsewhere
  auto* block = static_cast<Block*>(pointer.get_context());
  TORCH_CHECK_VALUE(block->segment->device->index() == stream.device_index(),
                    "record_stream: the tensor is on ", block->segment->device->label(),
                    ", the stream on ", stream.device());
  cache(stream.device_index()).record_stream(block, stream.id());
}

c10::CachingDeviceAllocator::DeviceStats Allocator::getDeviceStats(DeviceIndex device) {
  return cache(device).locked([](BufferCache& cache) { return cache.stats(); });
}

void Allocator::resetAccumulatedStats(DeviceIndex device) {
  cache(device).locked([](BufferCache& cache) { cache.reset_accumulated_stats(); });
}

void Allocator::resetPeakStats(DeviceIndex device) {
  cache(device).locked([](BufferCache& cache) { cache.reset_peak_stats(); });
}

std::pair<size_t, size_t> Allocator::getMemoryInfo(DeviceIndex device) {
  DeviceCache& found = cache(device);
  const size_t reserved = found.locked([](BufferCache& cache) { return cache.reserved(); });
  const size_t total = found.device().properties().total_memory;
  const size_t limit = std::min(found.limit(), total);
  return {limit > reserved ? limit - reserved : 0, total};
}

void Allocator::set_memory_fraction(double fraction, DeviceIndex index) {
  TORCH_CHECK_VALUE(fraction > 0 && fraction <= 1, "the memory fraction must be in (0, 1], not ",
                    fraction);
  const auto total = static_cast<double>(device(index).properties().total_memory);
  cache(index).set_limit(static_cast<size_t>(total * fraction));
}

std::vector<StreamId> Allocator::other_streams(const BufferView& view, StreamId current) {
  return cache(view.device().index()).other_streams(view, current);
}

void resize_storage(const c10::Storage& storage, size_t bytes) {
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  TORCH_CHECK(impl->resizable(), "Trying to resize storage that is not resizable");
  const c10::DeviceGuard guard(storage.device());
  c10::DataPtr resized = Allocator::instance().allocate(bytes);
  Allocator::instance().copy_data(resized.mutable_get(), impl->data(),
                                  std::min(bytes, impl->nbytes()));
  impl->set_data_ptr(std::move(resized));
  impl->set_nbytes(bytes);
}

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &Allocator::instance());

}  // namespace ocl
