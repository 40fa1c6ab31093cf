// A kernel's fault (fault.h) belongs to the thread that launched the kernel. Where PyTorch's
// threads work for another thread (backward passes, torch.jit.fork, callbacks), it belongs to that
// other thread: PyTorch passes ThreadLocalDebugInfo on to them, and the FaultThread is part of it.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace ocl {

// A stream has this many words for faults. Each living thread has a place, the index of its word.
// Threads of PyTorch that work for no known thread share place 0; any thread raises its faults.
inline constexpr int kFaultPlaces = 1024;

class FaultThread final : public c10::DebugInfoBase,
                          public std::enable_shared_from_this<FaultThread> {
 public:
  explicit FaultThread(bool waits);

  uint64_t id() const { return id_; }
  // Whether the thread will not synchronise again. Then any thread raises its faults.
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  void end() { ended_.store(true, std::memory_order_release); }
  // The same, after asking Python whether the thread has ended.
  bool ask_ended();

  // The thread's place, which never changes. The first call takes a lock.
  int place() {
    const int place = place_.load(std::memory_order_acquire);
    return C10_LIKELY(place >= 0) ? place : take_place();
  }

  // Two counts: the thread's kernels that may find a fault, and those whose faults the host has
  // read. When they are equal and the thread has ended, another thread may take its place.
  void count_kernel() { kernels_.fetch_add(1, std::memory_order_relaxed); }
  void settled(uint64_t kernels) { settled_.fetch_add(kernels, std::memory_order_release); }

  // The thread counts the blocks of memory that it allocates. A kernel's results may be in any of
  // the blocks since the operator began (operator_scope.h). Outside of operators, they may be in
  // any of the blocks since the previous command.
  uint64_t allocations() const { return allocations_.load(std::memory_order_relaxed); }
  uint64_t count_allocation() { return allocations_.fetch_add(1, std::memory_order_relaxed) + 1; }
  void command_enqueued() { before_.store(allocations(), std::memory_order_relaxed); }
  uint64_t first_result() const { return before_.load(std::memory_order_relaxed) + 1; }

 private:
  friend std::shared_ptr<FaultThread> fault_thread_at(int place);
  int take_place();
  bool leaves_its_place() const;

  const uint64_t id_, python_;
  std::atomic<bool> ended_;
  std::atomic<int> place_;
  std::atomic<uint64_t> kernels_{0}, settled_{0};
  std::atomic<uint64_t> allocations_{0}, before_{0};
};

// Notes that this thread computes with block number `allocation` of the thread with id() `thread`.
void note_fault_use(uint64_t thread, uint64_t allocation) noexcept;
// Whether this thread has computed with this block of that thread, or with a later one.
bool has_used(uint64_t thread, uint64_t allocation) noexcept;

// Asks Python about threads, because a thread ends for Python before its C++ destructors run.
// current(): the number of the current thread (0: none). has_ended() takes Python's lock, so the
// caller must hold no lock that an owner of Python's lock may wait for.
struct PythonThreads {
  uint64_t (*current)();
  bool (*has_ended)(uint64_t number);
};
void set_python_threads(PythonThreads threads) noexcept;

// The thread for which this one launches and waits: usually itself.
FaultThread& fault_thread();

// The last thread that has had the place.
std::shared_ptr<FaultThread> fault_thread_at(int place);

}  // namespace ocl
