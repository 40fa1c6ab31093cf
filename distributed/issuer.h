// A thread that runs tasks in the order of their submission. All ranks must issue their collectives
// in the same order, and a task waits for the device, so the caller does not run it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace ocl {

class Issuer {
 public:
  Issuer() : thread_([this] { run(); }) {}
  ~Issuer();  // runs the remaining tasks first
  Issuer(const Issuer&) = delete;
  Issuer& operator=(const Issuer&) = delete;

  // The task must not throw.
  void submit(std::function<void()> task);
  // Blocks until all tasks so far have run.
  void drain();

 private:
  void run();

  std::mutex mutex_;  // guards the two members below
  std::deque<std::function<void()>> tasks_;
  bool ending_ = false;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace ocl
