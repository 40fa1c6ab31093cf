#include "backend/queue/first_launch.h"

#include <mutex>

#include "backend/queue/stream.h"

namespace ocl {
namespace {

// Locks the first launches of kernels, where Quirk::kFirstLaunchAlone applies; else returns an
// empty lock.
std::unique_lock<std::mutex> lock_alone(const Device& device) {
  static auto* const mutex = new std::mutex;
  if (!device.has(Quirk::kFirstLaunchAlone)) return {};
  return std::unique_lock(*mutex);
}

}  // namespace

void launch_first(const Device& device, const Program& program, std::atomic<bool>* launched,
                  c10::function_ref<void()> enqueue) {
  const auto done = [&] { return launched && launched->load(std::memory_order_acquire); };
  if (done()) return enqueue();
  const auto alone = lock_alone(device);
  if (done()) return enqueue();
  if (alone) drain(device.index());
  enqueue();
  if (alone) drain(device.index());
  store_later(program);
  if (launched) launched->store(true, std::memory_order_release);
}

}  // namespace ocl
