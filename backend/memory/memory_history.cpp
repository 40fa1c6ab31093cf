#include "backend/memory/memory_history.h"

#include <algorithm>
#include <chrono>

namespace ocl {

MemoryHistory& MemoryHistory::instance() {
  static auto* const history = new MemoryHistory;
  return *history;
}

void MemoryHistory::start(const Settings& settings, bool forget_events) {
  std::lock_guard lock(mutex_);
  settings_ = settings;
  settings_.max_events = std::max<size_t>(1, settings.max_events);
  if (forget_events) events_.clear();
  enabled_ = true;
}

void MemoryHistory::stop() {
  std::lock_guard lock(mutex_);
  enabled_ = false;
  events_.clear();
}

Stack MemoryHistory::gather(KeepStacks kind) {
  std::unique_lock lock(mutex_);
  const Settings settings = settings_;
  lock.unlock();
  return settings.gather && settings.stacks >= kind ? settings.gather() : nullptr;
}

void MemoryHistory::record(MemoryEvent event) {
  if (C10_LIKELY(!enabled())) return;
  using namespace std::chrono;
  event.time = duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
  std::lock_guard lock(mutex_);
  if (!enabled() || settings_.skipped[event.action]) return;
  if (settings_.stacks < KeepStacks::kAlloc) event.stack = nullptr;
  auto& events = events_[event.device];
  while (events.size() >= settings_.max_events) events.pop_front();
  events.push_back(std::move(event));
}

std::vector<MemoryEvent> MemoryHistory::events() {
  std::lock_guard lock(mutex_);
  std::vector<MemoryEvent> all;
  for (const auto& [device, events] : events_) all.insert(all.end(), events.begin(), events.end());
  return all;
}

}  // namespace ocl
