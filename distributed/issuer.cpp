#include "distributed/issuer.h"

#include <c10/util/thread_name.h>

#include <future>

namespace ocl {

Issuer::~Issuer() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Issuer::submit(std::function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void Issuer::drain() {
  std::promise<void> reached;
  submit([&] { reached.set_value(); });
  reached.get_future().wait();
}

void Issuer::run() {
  c10::setThreadName("ocl_occl");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    {
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
    }
    lock.lock();
  }
}

}  // namespace ocl
