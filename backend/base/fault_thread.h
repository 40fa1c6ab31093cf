// Whom a kernel's fault (fault.h) belongs to: the thread that launched the kernel. A thread that
// works for another one counts as that one: PyTorch hands ThreadLocalDebugInfo on to its threads
// of backward passes, of torch.jit.fork and of callbacks, and the FaultThread is part of it.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace ocl {

// The words of a stream: a place for each living thread. Place 0 is anybody's: of PyTorch's own
// threads where they work for nobody known.
inline constexpr int kFaultPlaces = 1024;

class FaultThread final : public c10::DebugInfoBase,
                          public std::enable_shared_from_this<FaultThread> {
 public:
  explicit FaultThread(bool waits);

  uint64_t id() const { return id_; }
  // Whether it will synchronise no more, so that its faults are anybody's.
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  void end() { ended_.store(true, std::memory_order_release); }
  // The same, after a look whether Python's thread has ended.
  bool ask_ended();

  // Its place, which it keeps. The first call takes a lock.
  int place() {
    const int place = place_.load(std::memory_order_acquire);
    return C10_LIKELY(place >= 0) ? place : take_place();
  }

  // Counts its kernels that may find a fault, and those of which the host knows whether they did.
  // When the two are equal and the thread has ended, another thread gets the place.
  void count_kernel() { kernels_.fetch_add(1, std::memory_order_relaxed); }
  void settled(uint64_t kernels) { settled_.fetch_add(kernels, std::memory_order_release); }

  // Its blocks of memory are counted, to tell which of them may hold results of a kernel: those
  // that it allocated since the operator began (operator_scope.h), or else since the command before
  // the kernel.
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

// This thread computes with a block that another one (its id()) allocated as its n-th.
void note_fault_use(uint64_t thread, uint64_t allocation) noexcept;
// Whether it has, with this or a later block.
bool has_used(uint64_t thread, uint64_t allocation) noexcept;

// Asks Python, whose threads end a little before their destructors run: a number for this thread,
// or 0, and whether the thread of a number has ended. Python's lock must not be waited for by who
// holds locks that its holders wait for.
struct PythonThreads {
  uint64_t (*current)();
  bool (*has_ended)(uint64_t number);
};
void set_python_threads(PythonThreads threads) noexcept;

// The thread for which this one launches and waits, mostly itself.
FaultThread& fault_thread();

// The last thread that has had the place.
std::shared_ptr<FaultThread> fault_thread_at(int place);

}  // namespace ocl
