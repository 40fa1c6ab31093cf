#include "backend/memory/host_allocator.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "backend/base/error.h"
#include "backend/queue/event.h"

namespace ocl {
namespace {

// A buffer that stays mapped for its whole life.
struct PinnedBuffer {
  cl::CommandQueue queue;
  cl::Buffer buffer;
  size_t size = 0;
};

class PinnedMemory {
 public:
  void* create(size_t size) {
    Device& device = ocl::device(current_device());
    PinnedBuffer pinned{{}, {}, size};
    void* address = nullptr;
    translated(
        [&] { return str("cannot allocate ", format_bytes(size), " of pinned host memory"); },
        [&] {
          pinned.queue = queue_of(device);
          pinned.buffer =
              cl::Buffer(device.context(), CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, size);
          address = pinned.queue.enqueueMapBuffer(pinned.buffer, CL_TRUE,
                                                  CL_MAP_READ | CL_MAP_WRITE, 0, size);
        });
    std::unique_lock lock(mutex_);
    buffers_.emplace(reinterpret_cast<uintptr_t>(address), std::move(pinned));
    return address;
  }

  void destroy(void* address) {
    std::unique_lock lock(mutex_);
    const auto found = buffers_.find(reinterpret_cast<uintptr_t>(address));
    if (found == buffers_.end()) return;
    clEnqueueUnmapMemObject(found->second.queue(), found->second.buffer(), address, 0, nullptr,
                            nullptr);
    clFlush(found->second.queue());  // until a flush, the driver keeps the memory
    buffers_.erase(found);
  }

  // The start of the pinned buffer that contains the address, or nullptr.
  void* start_of(const void* pointer) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    std::shared_lock lock(mutex_);
    auto after = buffers_.upper_bound(address);
    if (after == buffers_.begin()) return nullptr;
    const auto& [start, pinned] = *std::prev(after);
    return address < start + pinned.size ? reinterpret_cast<void*>(start) : nullptr;
  }

 private:
  // A queue of its own: a map in a stream's queue would wait for the stream's commands.
  cl::CommandQueue queue_of(Device& device) {
    std::unique_lock lock(mutex_);
    cl::CommandQueue& queue = queues_[device.index()];
    if (!queue()) queue = cl::CommandQueue(device.context(), device.handle());
    return queue;
  }

  std::shared_mutex mutex_;
  std::map<uintptr_t, PinnedBuffer> buffers_;
  std::map<DeviceIndex, cl::CommandQueue> queues_;
};

PinnedMemory& pinned_memory() {
  static auto* const memory = new PinnedMemory;
  return *memory;
}

// The limit in torch's settings; older versions have none.
template <typename Config = c10::CachingAllocator::AcceleratorAllocatorConfig>
size_t configured_limit() {
  if constexpr (requires { Config::pinned_max_cached_size(); }) {
    return std::min(Config::pinned_max_cached_size(), Config::pinned_max_round_threshold());
  }
  return std::numeric_limits<size_t>::max();
}

// torch rounds sizes of blocks up to powers of two. The largest power of two that every device can
// allocate.
size_t largest_rounded() {
  static const size_t bytes = [] {
    size_t most = configured_limit();
    for (DeviceIndex i = 0; i < device_count(); ++i) {
      most = std::min(most, device(i).properties().max_allocation);
    }
    return std::bit_floor(most);
  }();
  return bytes;
}

// No `override` on functions that are virtual only in newer versions of torch.
struct HostAllocatorImpl final : at::CachingHostAllocatorImpl<c10::Stream, Event> {
  void allocate_host_memory(size_t size, void** pointer) override {
    *pointer = pinned_memory().create(size);
  }

  void free_block(at::HostBlock<c10::Stream>* block) override {
    pinned_memory().destroy(block->ptr_);
  }

  void record_stream(std::optional<std::vector<Event>>& events, c10::Stream stream) override {
    // Destructors of tensors call this, so it must not throw.
    Event event;
    try {
      event.record_enqueued(ocl::stream(stream));
    } catch (const std::exception&) {
      event = Event();  // an empty event counts as over
      ocl::stream(stream).drain_quietly();
    }
    events->push_back(std::move(event));
  }

  // True also after a failure, which the stream raises.
  bool query_event(Event& event) override { return event.over(); }

  virtual c10::Stream get_current_stream() const {
    return current_stream(current_device()).unpack();
  }

  // Larger blocks have exact sizes. They are not cached, because the cache would take them for
  // blocks of the rounded size.
  virtual size_t pinned_max_round_threshold() const { return largest_rounded(); }
  virtual size_t pinned_max_cached_size() const { return largest_rounded(); }

  virtual bool stream_is_capturing(c10::Stream stream) const {
    return ocl::stream(stream).captured();
  }
};

void free_pinned(void* context);

using Interface = at::CachingHostAllocatorInterface<HostAllocatorImpl, &free_pinned>;

struct PinnedAllocator final : Interface {
  c10::DataPtr allocate(size_t size) override {
    refuse_fork();
    return Interface::allocate(size);
  }

  void copy_data(void* destination, const void* source, size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }
};

PinnedAllocator& pinned_allocator() {
  static auto* const allocator = new PinnedAllocator;
  return *allocator;
}

void free_pinned(void* context) {
  if (!in_bad_fork()) pinned_allocator().free(context);
}

}  // namespace

at::HostAllocator* host_allocator() { return &pinned_allocator(); }

bool is_pinned(const void* pointer) { return !in_bad_fork() && pinned_memory().start_of(pointer); }

// For torch.accelerator.empty_host_cache().
REGISTER_HOST_ALLOCATOR(c10::DeviceType::PrivateUse1, &pinned_allocator())

bool record_pinned(const void* pointer, void* context, c10::Stream stream) {
  if (in_bad_fork()) return false;
  void* const start = pinned_memory().start_of(pointer);
  // Tensors of NumPy or DLPack have contexts of their own.
  return start && (pinned_allocator().record_event(const_cast<void*>(pointer), context, stream) ||
                   pinned_allocator().record_event(start, context, stream));
}

}  // namespace ocl
