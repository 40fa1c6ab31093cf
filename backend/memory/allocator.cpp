#include "backend/memory/allocator.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/COW.h>

#include <algorithm>
#include <array>

#include "backend/memory/device_cache.h"
#include "backend/memory/transfer.h"
#include "backend/queue/capture.h"

namespace ocl {

namespace {

std::array<std::atomic<DeviceCache*>, kMaxDevices> caches{};
std::mutex caches_mutex;
thread_local std::array<uint64_t, kMaxDevices> thread_pools{};

// pool_stream() has 31 bits for the number of a pool.
void check_pool(uint64_t pool) {
  TORCH_CHECK_VALUE(pool < uint64_t{1} << 31, "there is no memory pool ", pool,
                    ": torch.ocl.graph_pool_handle() makes one");
}

// Reports the bytes of blocks, with their padding, to torch.profiler (profile_memory=True).
void report(DeviceCache& cache, void* address, int64_t bytes) {
  if (C10_LIKELY(!c10::memoryProfilingEnabled())) return;
  const auto [allocated, reserved] = cache.locked([](BufferCache& cache) {
    return std::pair(cache.stats().allocated_bytes[0].current, cache.reserved());
  });
  c10::reportMemoryUsageToProfiler(address, bytes, allocated, reserved,
                                   {c10::DeviceType::PrivateUse1, cache.device().index()});
}

void delete_block(void* context) {
  if (in_bad_fork()) return;  // another thread may have held the locks
  auto* block = static_cast<Block*>(context);
  try {
    DeviceCache& cache = *caches[block->segment->device->index()].load(std::memory_order_acquire);
    void* const address = reinterpret_cast<void*>(address_of(*block));
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
  TORCH_CHECK(static_cast<int64_t>(bytes) >= 0,
              "cannot allocate a negative number of bytes: ", static_cast<int64_t>(bytes));
  const DeviceIndex index = current_device();
  DeviceCache& device_cache = cache(index);
  const c10::Device where(c10::DeviceType::PrivateUse1, index);
  if (bytes == 0) return {nullptr, nullptr, &delete_block, where};
  const Stream& stream = current_stream(index);
  const Capture* capture = stream.capture();
  const uint64_t pool = C10_UNLIKELY(capture != nullptr) ? capture->pool() : thread_pools[index];
  Block* block = device_cache.allocate(bytes, pool_stream(pool, stream.id()));
  FaultThread& thread = fault_thread();
  block->thread = thread.id();
  block->allocation = thread.count_allocation();
  void* const address = reinterpret_cast<void*>(address_of(*block));
  report(device_cache, address, static_cast<int64_t>(block->size));
  return {address, block, &delete_block, where};
}

// raw_allocate() is for allocators whose context is the data pointer; ours is another object.
c10::DeleterFnPtr Allocator::raw_deleter() const { return nullptr; }

#if OCL_HAS_LAZY_CLONES
bool Allocator::is_simple_data_ptr(const c10::DataPtr& pointer) const {
  return pointer.get_deleter() == &delete_block;
}
#endif

void Allocator::copy_data(void* destination, const void* source, size_t bytes) const {
  if (bytes == 0) return;
  const BufferView target = resolve(destination);
  copy_on_device(current_stream(target.device().index()), target, resolve(source), bytes);
}

void Allocator::emptyCache(c10::MempoolId_t) {
  refuse_fork();
  for (auto& each : caches) {
    if (DeviceCache* existing = each.load(std::memory_order_acquire)) existing->empty();
  }
}

void Allocator::empty_now(DeviceIndex device) { cache(device).empty_now(); }

void Allocator::recordStream(const c10::DataPtr& pointer, c10::Stream stream) {
  const bool lazy_clone = c10::impl::cow::is_cow_data_ptr(pointer);
  if (!pointer.get() || (pointer.get_deleter() != &delete_block && !lazy_clone)) {
    return;  // another allocator made it
  }
  Device& owner = device(pointer.device().index());
  TORCH_CHECK_VALUE(owner.index() == stream.device_index(), "record_stream: the tensor is on ",
                    owner.label(), ", the stream on ", stream.device());
  DeviceCache& found = cache(stream.device_index());
  auto* block = static_cast<Block*>(pointer.get_context());
  if (lazy_clone) {
    const BufferView view = resolve(pointer.get());
    block = found.locked([&](BufferCache& all) { return all.find(view.segment, view.offset); });
  }
  found.record_stream(block, stream.id());
}

c10::CachingDeviceAllocator::DeviceStats Allocator::getDeviceStats(DeviceIndex device) {
  refuse_fork();
  auto stats = cache(device).locked([](BufferCache& cache) { return cache.stats(); });
  // As in CUDA's statistics: -1 for no limit.
  stats.max_split_size =
      static_cast<int64_t>(c10::CachingAllocator::AcceleratorAllocatorConfig::max_split_size());
  return stats;
}

void Allocator::resetAccumulatedStats(DeviceIndex device) {
  cache(device).locked([](BufferCache& cache) { cache.reset_accumulated_stats(); });
}

void Allocator::resetPeakStats(DeviceIndex device) {
  cache(device).locked([](BufferCache& cache) { cache.reset_peak_stats(); });
}

std::pair<size_t, size_t> Allocator::getMemoryInfo(DeviceIndex device) {
  DeviceCache& found = cache(device);
  return {found.free_bytes(), found.device().properties().total_memory};
}

void Allocator::set_memory_fraction(double fraction, DeviceIndex index) {
  TORCH_CHECK_VALUE(fraction >= 0 && fraction <= 1, "the memory fraction must be in [0, 1], not ",
                    fraction);
  const auto total = static_cast<double>(device(index).properties().total_memory);
  cache(index).set_limit(static_cast<size_t>(total * fraction));
}

double Allocator::memory_fraction(DeviceIndex index) {
  const auto total = static_cast<double>(device(index).properties().total_memory);
  return static_cast<double>(cache(index).limit()) / total;
}

std::vector<SegmentSnapshot> Allocator::snapshot() {
  refuse_fork();
  std::vector<SegmentSnapshot> segments;
  for (auto& each : caches) {
    if (DeviceCache* existing = each.load(std::memory_order_acquire)) existing->snapshot(segments);
  }
  return segments;
}

uint64_t Allocator::new_pool() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

uint64_t Allocator::exchange_thread_pool(uint64_t pool, DeviceIndex index) {
  device(index);  // checks the index
  check_pool(pool);
  return std::exchange(thread_pools[index], pool);
}

void Allocator::add_pool_user(uint64_t pool, DeviceIndex device) {
  check_pool(pool);
  cache(device).add_pool_user(pool);
}

void Allocator::remove_pool_user(uint64_t pool, DeviceIndex device) {
  cache(device).remove_pool_user(pool);
}

std::vector<StreamId> Allocator::other_streams(const BufferView& view, StreamId current) {
  return cache(view.device().index()).other_streams(view, current);
}

size_t Allocator::bytes_from(const BufferView& view) {
  return cache(view.device().index()).locked([&](BufferCache& all) {
    const Block* block = all.find(view.segment, view.offset);
    if (!block) return view.segment->size - view.offset;
    return block->allocated ? block->offset + block->size - view.offset : 0;
  });
}

void Allocator::note_use(const c10::DataPtr& pointer, uint64_t thread) noexcept {
  if (pointer.get_deleter() != &delete_block || !pointer.get_context()) return;
  const auto* block = static_cast<const Block*>(pointer.get_context());
  if (C10_UNLIKELY(block->thread != thread)) note_fault_use(block->thread, block->allocation);
}

FaultOrigin Allocator::fault_origin(const BufferView& view) {
  return cache(view.device().index()).locked([&](BufferCache& all) {
    const Block* block = all.find(view.segment, view.offset);
    return block ? FaultOrigin{block->thread, block->allocation} : FaultOrigin();
  });
}

void resize_storage(const c10::Storage& storage, size_t bytes, NewBytes rest) {
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  const size_t old_bytes = impl->nbytes();
  TORCH_CHECK(impl->resizable(), "Trying to resize storage that is not resizable: from ", old_bytes,
              " to ", bytes, " bytes on ", device(storage.device().index()).label(),
              ". The size is fixed where a file, another library or a collective in flight has set "
              "it: use x.clone()");
  const c10::DeviceGuard guard(storage.device());
  c10::DataPtr resized = Allocator::instance().allocate(bytes);
  Allocator::instance().copy_data(resized.mutable_get(), impl->data(), std::min(bytes, old_bytes));
  Stream& stream = current_stream(storage.device().index());
  if (rest == NewBytes::kZero && bytes > old_bytes) {
    constexpr char kZero = 0;
    fill_on_device(stream, resolve(static_cast<char*>(resized.mutable_get()) + old_bytes), &kZero,
                   sizeof(kZero), bytes - old_bytes);
  }
  // The copy reads the old memory on the current stream, which may be another stream than the
  // memory's.
  Allocator::instance().recordStream(impl->data_ptr(), stream.unpack());
  impl->set_data_ptr(std::move(resized));
  impl->set_nbytes(bytes);
}

namespace {

const bool hooked = [] {
  memory_hooks = {
      [](DeviceIndex device) { Allocator::instance().empty_now(device); },
      [](const BufferView& view) { return Allocator::instance().fault_origin(view); },
  };
  return true;
}();

}  // namespace

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &Allocator::instance());

}  // namespace ocl
