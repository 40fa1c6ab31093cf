// A thread that runs tasks in the order of their submission. All ranks must issue their collectives
// in the same order, and a task waits for the device, so the caller does not run it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace ocl {

class Issuer {
 public:
  Issuer();
  // Waits until the remaining tasks have run, except when a task itself destroys the issuer: a task
  // that failed may hold the last reference to its group.
  ~Issuer();
  Issuer(const Issuer&) = delete;
  Issuer& operator=(const Issuer&) = delete;

  // The task must not throw.
  void submit(std::function<void()> task);
  // Blocks until all tasks so far have run.
  void drain();

 private:
  struct State {
    std::mutex mutex;  // guards the two members below
    std::deque<std::function<void()>> tasks;
    bool ending = false;
    std::condition_variable changed;
  };
  static void run(State& state);

  const std::shared_ptr<State> state_;  // the thread's, too
  std::thread thread_;
};

}  // namespace ocl
