// A thread that starts collectives and messages: that waits for the device, so the caller does not.
//
// All ranks must start the collectives of a group in the same order, the order of submission. Each
// sees the results of those before it, as on one stream: it starts once no collective in flight
// writes its memory, or uses what it writes. The others need the same collectives to end, so they
// do end. Messages start without waiting for collectives or each other, because a peer may need
// them first, as in Gloo.
//
// A collective that waits for nothing starts on the caller's thread: waking another takes as long
// as a small collective.
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
  uintptr_t begin, end;  // addresses as in data_ptr(), or of a tensor itself
  bool writes;
};
using MemoryRanges = std::vector<MemoryRange>;

class Issuer {
 public:
  // The end of a collective that uses memory releases this.
  using Hold = std::shared_ptr<void>;
  // Must not throw.
  using Task = std::function<void(Hold)>;

  Issuer();
  // Waits until the remaining tasks have run, except when a task itself destroys the issuer: a task
  // that failed may hold the last reference to its group.
  ~Issuer();
  Issuer(const Issuer&) = delete;
  Issuer& operator=(const Issuer&) = delete;

  // `short_task`: does not block, and may run before the call returns, where no other task is left.
  void submit_collective(MemoryRanges memory, Task task, bool short_task = false);
  void submit_message(Task task);
  // Blocks until all tasks so far have run. A collective that waits for memory waits for peers.
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
    bool running = false;  // a task, on any thread
    bool ending = false;
    // Of the issuing thread, for tasks on others: no autograd, modes or profiler of the user.
    std::optional<at::ThreadLocalState> thread_state;
    std::condition_variable changed;
  };
  static Hold hold(const std::shared_ptr<State>& state, MemoryRanges memory);
  static void run_first(const std::shared_ptr<State>& state, std::unique_lock<std::mutex>& lock,
                        bool by_caller = false);
  static void run(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;  // the thread's, and the holds', too
  std::thread thread_;
};

}  // namespace ocl
