#include "backend/queue/first_launch.h"

#include <mutex>

#include "backend/queue/stream.h"

namespace ocl {

void launch_first(const Device& device, const Program& program, std::atomic<bool>* launched,
                  c10::function_ref<void()> enqueue) {
  const auto done = [&] { return launched && launched->load(std::memory_order_acquire); };
  if (done()) return enqueue();
  static auto* const mutex = new std::mutex;
  std::unique_lock<std::mutex> alone;
  if (device.has(Quirk::kFirstLaunchAlone)) alone = std::unique_lock(*mutex);
  if (done()) return enqueue();
  if (alone) drain(device.index());
  enqueue();
  if (alone) drain(device.index());
  store_later(program);
  if (launched) launched->store(true, std::memory_order_release);
}

}  // namespace ocl
