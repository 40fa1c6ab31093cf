#include "kernels/core/grids/task_items.h"

#include <ATen/ops/zeros.h>
#include <c10/util/ScopeExit.h>

#include <map>
#include <mutex>

#include "backend/memory/allocator.h"

namespace ocl {
namespace {

// Words that are 0, each in its own cache line. Setting a word to 0 for each launch would be a
// launch itself, which takes as long as a small matrix product.
constexpr int64_t kCount = 256, kWordsApart = 16;

struct Counters {
  at::Tensor words;
  int64_t next = kCount;

  at::Tensor take() { return words.narrow(0, kWordsApart * next++, 1); }
};

// Later launches use the counters, so they must not come from a memory pool of the user.
at::Tensor new_words(DeviceIndex device, const at::TensorOptions& options) {
  const uint64_t pool = Allocator::exchange_thread_pool(0, device);
  const auto restore = c10::make_scope_exit([&] { Allocator::exchange_thread_pool(pool, device); });
  return at::zeros({kCount * kWordsApart}, options);
}

}  // namespace

at::Tensor item_counter(Stream& stream, const at::Tensor& like) {
  const at::TensorOptions options =
      like.options().dtype(at::kInt).memory_format(std::nullopt).requires_grad(false);
  // A graph repeats its launches, so it must set the counter to 0 each time.
  if (stream.captured()) return at::zeros({1}, options);
  static auto& mutex = *new std::mutex;
  static auto& counters = *new std::map<std::pair<DeviceIndex, StreamId>, Counters>;
  const std::pair<DeviceIndex, StreamId> key(like.device().index(), stream.id());
  {
    std::lock_guard lock(mutex);
    Counters& known = counters[key];
    if (known.next < kCount) return known.take();
  }
  Counters made{new_words(key.first, options), 0};  // without the lock, because it may wait
  const at::Tensor counter = made.take();
  std::lock_guard lock(mutex);
  counters[key] = made;
  return counter;
}

}  // namespace ocl
