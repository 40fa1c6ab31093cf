#include "distributed/issuer.h"

#include <c10/util/thread_name.h>

#include <algorithm>
#include <future>

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

void Issuer::submit_collective(MemoryRanges memory, Task task) {
  {
    std::lock_guard lock(state_->mutex);
    state_->collectives.push_back({std::move(memory), std::move(task)});
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
  submit_collective({}, [&](const Hold&) { reached.set_value(); });  // messages go first
  reached.get_future().wait();
}

// Whether there is a task to run, or none will come.
bool Issuer::State::ready() const {
  if (!messages.empty()) return true;
  if (collectives.empty()) return ending;
  const MemoryRanges& memory = collectives.front().memory;
  return std::none_of(in_use.begin(), in_use.end(),
                      [&](const MemoryRanges& other) { return conflict(memory, other); });
}

// With the state's mutex.
Issuer::Hold Issuer::hold(const std::shared_ptr<State>& state, MemoryRanges memory) {
  if (memory.empty()) return nullptr;
  const auto place = state->in_use.insert(state->in_use.end(), std::move(memory));
  return Hold(nullptr, [state, place](void*) {
    {
      std::lock_guard lock(state->mutex);
      state->in_use.erase(place);
    }
    state->changed.notify_one();
  });
}

void Issuer::run(const std::shared_ptr<State>& state) {
  c10::setThreadName("ocl_occl");
  std::unique_lock lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return state->ready(); });
    if (!state->messages.empty()) {
      const Task task = std::move(state->messages.front());
      state->messages.pop_front();
      lock.unlock();
      task(nullptr);
    } else if (!state->collectives.empty()) {
      Collective next = std::move(state->collectives.front());
      state->collectives.pop_front();
      Hold held = hold(state, std::move(next.memory));
      lock.unlock();
      next.task(std::move(held));
    } else {
      return;
    }
    lock.lock();
  }
}

}  // namespace ocl
