// A thread that runs tasks in the order in which they were submitted. All ranks must issue their
// collectives in one order, and a task waits for the device; so the thread does, not the caller.
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
  ~Issuer();  // runs what was submitted
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
