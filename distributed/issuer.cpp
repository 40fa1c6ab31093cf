#include "distributed/issuer.h"

#include <c10/util/thread_name.h>

#include <future>

namespace ocl {

Issuer::Issuer() : state_(std::make_shared<State>()), thread_([state = state_] { run(*state); }) {}

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

void Issuer::submit(std::function<void()> task) {
  {
    std::lock_guard lock(state_->mutex);
    state_->tasks.push_back(std::move(task));
  }
  state_->changed.notify_one();
}

void Issuer::drain() {
  std::promise<void> reached;
  submit([&] { reached.set_value(); });
  reached.get_future().wait();
}

void Issuer::run(State& state) {
  c10::setThreadName("ocl_occl");
  std::unique_lock lock(state.mutex);
  while (true) {
    state.changed.wait(lock, [&] { return state.ending || !state.tasks.empty(); });
    if (state.tasks.empty()) return;
    {
      const std::function<void()> task = std::move(state.tasks.front());
      state.tasks.pop_front();
      lock.unlock();
      task();
    }
    lock.lock();
  }
}

}  // namespace ocl
