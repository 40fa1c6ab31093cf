// The command queue of a stream. Profiling slows the queues of GPUs, so their streams begin with a
// plain queue, and change to one with profiling at the first command whose times are wanted. The
// commands keep their order.
//
//   queue.enqueue([&](cl_command_queue raw) { return clEnqueueFillBuffer(raw, ...); });
#pragma once

#include <atomic>
#include <mutex>

#include "backend/device/device.h"

namespace ocl {

class CommandQueue {
 public:
  CommandQueue(Device& device, bool high_priority);
  CommandQueue(Device& device, cl::CommandQueue of_user);
  CommandQueue(const CommandQueue&) = delete;
  CommandQueue& operator=(const CommandQueue&) = delete;

  // The queue of this moment.
  const cl::CommandQueue& now() const {
    const cl::CommandQueue* now = now_.load(std::memory_order_acquire);
    return C10_LIKELY(now != nullptr) ? *now : after_change();
  }

  // Returns `body(queue)`, which enqueues commands and returns OpenCL's code. Commands must be
  // enqueued in this way, because another thread may change the queue meanwhile.
  template <typename Body>
  cl_int enqueue(Body&& body) {
    const cl::CommandQueue& used = now();
    const cl_int code = body(used());
    if (C10_UNLIKELY(now_.load(std::memory_order_acquire) != &used)) order_after_first();
    return code;
  }

  // From here on, the events of commands tell times, unless the user's queue was made without, or
  // the device has no times.
  void enable_times() {
    if (C10_UNLIKELY(!settled_.load(std::memory_order_acquire))) change();
  }

  // clFinish() of all commands.
  cl_int finish();

 private:
  const cl::CommandQueue& after_change() const;
  void change();
  void order_after_first();
  cl_int finish(const cl::CommandQueue& queue) const;

  Device& device_;
  const bool high_priority_;
  std::atomic<bool> settled_;                // the queue will not change
  std::atomic<bool> first_busy_{false};      // after a change: `first_` may have commands
  std::atomic<cl_int> failure_{CL_SUCCESS};  // of a command of `first_`, for the next finish()
  const cl::CommandQueue first_;
  cl::CommandQueue timed_;                             // after a change
  std::atomic<const cl::CommandQueue*> now_{&first_};  // nullptr: it is being changed
  mutable std::mutex mutex_;                           // held by a change
};

}  // namespace ocl
