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

  // The queue that the stream uses now.
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

  // From here on, events of commands have times, unless a user's queue was made without profiling,
  // or the device does not support it.
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
  std::atomic<bool> first_busy_{false};      // `first_` may have commands since the change
  std::atomic<cl_int> failure_{CL_SUCCESS};  // an error of `first_`, for the next finish()
  const cl::CommandQueue first_;
  cl::CommandQueue timed_;                             // set by the change
  std::atomic<const cl::CommandQueue*> now_{&first_};  // nullptr during the change
  mutable std::mutex mutex_;                           // held during the change
};

}  // namespace ocl
