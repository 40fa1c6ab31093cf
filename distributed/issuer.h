// A thread that starts collectives and messages. Starting one waits for the device; so the caller
// need not wait.
//
// All ranks must start the collectives of a group in the same order, the order of submission. A
// collective sees the results of those before it, as on a stream: it starts once no collective in
// flight writes memory that it uses, or uses memory that it writes. This cannot deadlock, because
// the other ranks wait for the same collectives. Messages start without waiting for collectives or
// each other, because a peer may need them first, as in Gloo.
//
// A collective that waits for nothing starts on the caller's thread: waking another thread takes as
// long as a small collective.
#pragma once

#include <ATen/ThreadLocalState.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace ocl {

struct MemoryRange {
  uintptr_t begin, end;  // addresses as in data_ptr(), or of the TensorImpl
  bool writes;
};
using MemoryRanges = std::vector<MemoryRange>;

class Issuer {
 public:
  // Marks the memory of a collective as in use until it is released.
  using Hold = std::shared_ptr<void>;
  // A task must not throw.
  using Task = std::function<void(Hold)>;

  Issuer();
  // Waits until the remaining tasks have run, unless a task itself destroys the issuer: a failed
  // task may hold the last reference to its group.
  ~Issuer();
  Issuer(const Issuer&) = delete;
  Issuer& operator=(const Issuer&) = delete;

  // `short_task`: the task does not block, so the call may run it if no other task is left.
  void submit_collective(MemoryRanges memory, Task task, bool short_task = false);
  void submit_message(Task task);
  // Blocks until all tasks so far have run. This may include waiting for peers.
  void drain();

 private:
  struct Collective {
    MemoryRanges memory;
    Task task;
  };
  struct State {
    bool ready() const;
    bool idle() const;
    bool empty() const { return messages.empty() && collectives.empty(); }

    std::mutex mutex;  // guards the members below
    std::deque<Collective> collectives;
    std::deque<Task> messages;
    std::list<MemoryRanges> in_use;
    bool running = false;  // any thread runs a task
    bool ending = false;
    // The issuing thread's, for tasks on other threads: without the user's autograd, modes or
    // profiler.
    std::optional<at::ThreadLocalState> thread_state;
    std::condition_variable changed;
  };
  static Hold hold(const std::shared_ptr<State>& state, MemoryRanges memory);
  static void run_first(const std::shared_ptr<State>& state, std::unique_lock<std::mutex>& lock,
                        bool by_caller = false);
  static void run(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;  // shared with the thread and the holds
  std::thread thread_;
};

}  // namespace ocl
