#include "distributed/in_flight.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "backend/queue/stream.h"

namespace ocl {

struct OperationInFlight {
  uint64_t number;
  std::vector<DeviceIndex> devices;
};

namespace {

struct Operations {
  std::mutex mutex;  // guards the members below
  std::list<OperationInFlight> list;
  uint64_t next = 0;
  std::condition_variable ended;
};

// Leaked: Gloo's threads may end operations while the process exits.
Operations& operations() {
  static auto* const all = new Operations;
  return *all;
}

struct Releases {
  std::mutex mutex;  // guards the members below
  int running = 0;
  bool kept = false;
  std::condition_variable ended;
};

Releases& releases() {
  static auto* const all = new Releases;
  return *all;
}

thread_local bool makes_progress = false;

// Does not wait for later operations, so it ends even if a thread keeps starting new ones.
void wait_for_operations(DeviceIndex device) {
  if (makes_progress) return;
  Operations& all = operations();
  std::unique_lock lock(all.mutex);
  all.ended.wait(lock, [&, next = all.next] {
    return std::none_of(all.list.begin(), all.list.end(), [&](const OperationInFlight& each) {
      return each.number < next && std::count(each.devices.begin(), each.devices.end(), device);
    });
  });
}

std::list<OperationInFlight>::iterator begin(std::vector<DeviceIndex> devices) {
  before_synchronize(&wait_for_operations);
  Operations& all = operations();
  std::lock_guard lock(all.mutex);
  return all.list.insert(all.list.end(), {all.next++, std::move(devices)});
}

}  // namespace

InFlight::InFlight(std::vector<DeviceIndex> devices) : place_(begin(std::move(devices))) {}

InFlight::~InFlight() {
  Operations& all = operations();
  {
    std::lock_guard lock(all.mutex);
    all.list.erase(place_);
  }
  all.ended.notify_all();
}

bool Release::begin() noexcept {
  Releases& all = releases();
  std::lock_guard lock(all.mutex);
  if (!all.kept) ++all.running;
  return !all.kept;
}

void Release::end() noexcept {
  Releases& all = releases();
  {
    std::lock_guard lock(all.mutex);
    --all.running;
  }
  all.ended.notify_all();
}

void keep_released() {
  constexpr std::chrono::seconds kMost{10};  // a thread may never release Python's lock
  Releases& all = releases();
  std::unique_lock lock(all.mutex);
  all.kept = true;
  all.ended.wait_for(lock, kMost, [&] { return all.running == 0; });
}

ProgressThread::ProgressThread() : former_(std::exchange(makes_progress, true)) {}
ProgressThread::~ProgressThread() { makes_progress = former_; }

}  // namespace ocl
