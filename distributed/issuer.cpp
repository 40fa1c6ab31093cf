#include "distributed/issuer.h"

#include <c10/util/thread_name.h>

#include <algorithm>
#include <future>

#include "backend/queue/watchdog.h"

namespace ocl {
namespace {

bool conflict(const MemoryRanges& first, const MemoryRanges& second) {
  return std::any_of(first.begin(), first.end(), [&](const MemoryRange& a) {
    return std::any_of(second.begin(), second.end(), [&](const MemoryRange& b) {
      return (a.writes || b.writes) && a.begin < b.end && b.begin < a.end;
    });
  });
}

}  // namespace

Issuer::Issuer() : state_(std::make_shared<State>()), thread_([state = state_] { run(state); }) {}

Issuer::~Issuer() {
  {
    std::lock_guard lock(state_->mutex);
    state_->ending = true;
  }
  state_->changed.notify_one();
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void Issuer::submit_collective(MemoryRanges memory, Task task, bool short_task) {
  {
    std::unique_lock lock(state_->mutex);
    const bool here = short_task && state_->idle();
    state_->collectives.push_back({std::move(memory), std::move(task)});
    if (here && state_->ready()) {
      run_first(state_, lock, /*by_caller=*/true);
      if (state_->idle()) return;
    }
  }
  state_->changed.notify_one();
}

void Issuer::submit_message(Task task) {
  {
    std::lock_guard lock(state_->mutex);
    state_->messages.push_back(std::move(task));
  }
  state_->changed.notify_one();
}

void Issuer::drain() {
  std::promise<void> reached;
  submit_collective({}, [&](const Hold&) { reached.set_value(); });  // messages first
  reached.get_future().wait();
}

bool Issuer::State::idle() const { return thread_state && !running && !ending && empty(); }

// Whether there is a task to run, or the issuer ends.
bool Issuer::State::ready() const {
  if (!messages.empty()) return true;
  if (collectives.empty()) return ending;
  const MemoryRanges& memory = collectives.front().memory;
  return std::none_of(in_use.begin(), in_use.end(),
                      [&](const MemoryRanges& other) { return conflict(memory, other); });
}

// Call with the state's mutex locked.
Issuer::Hold Issuer::hold(const std::shared_ptr<State>& state, MemoryRanges memory) {
  if (memory.empty()) return nullptr;
  const auto place = state->in_use.insert(state->in_use.end(), std::move(memory));
  return Hold(nullptr, [state, place](void*) {
    {
      std::lock_guard lock(state->mutex);
      state->in_use.erase(place);
      if (state->collectives.empty()) return;
    }
    state->changed.notify_one();
  });
}

// Runs the first task without the lock: its end may destroy the issuer, and a guard of thread-local
// state may take Python's lock. On a caller's thread the task gets the thread-local state of the
// issuing thread.
void Issuer::run_first(const std::shared_ptr<State>& state, std::unique_lock<std::mutex>& lock,
                       bool by_caller) {
  Task task;
  Hold held;
  if (!state->messages.empty()) {
    task = std::move(state->messages.front());
    state->messages.pop_front();
  } else {
    task = std::move(state->collectives.front().task);
    held = hold(state, std::move(state->collectives.front().memory));
    state->collectives.pop_front();
  }
  state->running = true;
  lock.unlock();
  {
    std::optional<at::ThreadLocalStateGuard> guard;
    std::optional<watchdog::Uninterrupted> uninterrupted;
    if (by_caller) {
      guard.emplace(*state->thread_state);
      uninterrupted.emplace();
    }
    task(std::move(held));
    task = nullptr;
  }
  lock.lock();
  state->running = false;
}

void Issuer::run(const std::shared_ptr<State>& state) {
  c10::setThreadName("ocl_occl");
  std::unique_lock lock(state->mutex);
  state->thread_state.emplace();
  while (true) {
    state->changed.wait(lock, [&] { return !state->running && state->ready(); });
    if (state->empty()) return;
    run_first(state, lock);
  }
}

}  // namespace ocl
