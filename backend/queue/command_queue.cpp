#include "backend/queue/command_queue.h"

#include "backend/base/environment.h"
#include "backend/base/error.h"

namespace ocl {
namespace {

// Whether the queues of a device have profiling from the start. On CPUs its cost is below the noise
// (docs/architecture.md). On GPUs programs of small kernels take 1.1 to 1.8 times as long
// (https://github.com/CHIP-SPV/chipStar/pull/814).
bool always_timed(const Device& device) {
  if (!device.properties().has_profiling) return false;
  const std::string chosen = environment("OCL_PROFILING");
  if (chosen.empty()) return device.properties().type == "cpu";
  TORCH_CHECK_VALUE(chosen == "0" || chosen == "1", "OCL_PROFILING must be 0 or 1, not \"",
                    printable(chosen), "\"");
  return chosen == "1";
}

// Priorities need an entry point of OpenCL 2.0 and an extension. Without them the priority is
// ignored, as in CUDA on devices without priorities.
cl::CommandQueue make_queue(Device& device, bool high_priority, bool timed) {
  const cl_command_queue_properties profiling = timed ? CL_QUEUE_PROFILING_ENABLE : 0;
  constexpr cl_ulong kQueueProperties = 0x1093, kQueuePriority = 0x1096, kPriorityHigh = 1;
  using Create = cl_command_queue (*)(cl_context, cl_device_id, const cl_ulong*, cl_int*);
  if (high_priority && device.properties().version_major >= 2 &&
      device.has_extension("cl_khr_priority_hints")) {
    if (auto create =
            reinterpret_cast<Create>(opencl_symbol("clCreateCommandQueueWithProperties"))) {
      const cl_ulong properties[] = {kQueueProperties, profiling, kQueuePriority, kPriorityHigh, 0};
      cl_int code = CL_SUCCESS;
      cl_command_queue queue = create(device.context()(), device.handle()(), properties, &code);
      if (code == CL_SUCCESS) return cl::CommandQueue(queue);
    }
  }
  return translated([&] { return str("cannot create a command queue on ", device.label()); },
                    [&] { return cl::CommandQueue(device.context(), device.handle(), profiling); });
}

// Makes later commands of `to` wait for the commands of `from` so far.
void chain(const cl::CommandQueue& from, const cl::CommandQueue& to, const Device& device) {
  translated([&] { return str("cannot change the command queue of a stream of ", device.label()); },
             [&] {
               std::vector<cl::Event> mark(1);
               from.enqueueMarkerWithWaitList(nullptr, &mark[0]);
               from.flush();
               to.enqueueBarrierWithWaitList(&mark);
             });
}

}  // namespace

CommandQueue::CommandQueue(Device& device, bool high_priority)
    : device_(device),
      high_priority_(high_priority),
      settled_(always_timed(device) || !device.properties().has_profiling),
      first_(make_queue(device, high_priority, settled_ && device.properties().has_profiling)) {}

CommandQueue::CommandQueue(Device& device, cl::CommandQueue of_user)
    : device_(device), high_priority_(false), settled_(true), first_(std::move(of_user)) {}

// Threads read `now_` without a lock, so a thread may enqueue a command on the first queue after
// the change. After its call, that thread sees the change: the driver's lock of the first queue
// orders the call after the marker, and the marker comes after the first store below. The thread
// then makes the new queue wait for its command, too. Until the new queue waits for the marker,
// other threads wait.
void CommandQueue::change() {
  std::lock_guard lock(mutex_);
  if (settled_.load(std::memory_order_relaxed)) return;
  timed_ = make_queue(device_, high_priority_, /*timed=*/true);
  now_.store(nullptr);
  first_busy_.store(true);
  try {
    chain(first_, timed_, device_);
  } catch (...) {
    now_.store(&first_);
    throw;
  }
  now_.store(&timed_);
  settled_.store(true, std::memory_order_release);
}

const cl::CommandQueue& CommandQueue::after_change() const {
  std::lock_guard lock(mutex_);
  return *now_.load(std::memory_order_relaxed);
}

void CommandQueue::order_after_first() {
  std::lock_guard lock(mutex_);
  if (now_.load(std::memory_order_relaxed) == &first_) return;  // the change has failed
  first_busy_.store(true);
  try {
    chain(first_, timed_, device_);
  } catch (const std::exception&) {
    // The host waits instead of the queue. Nothing is raised, because the command itself was
    // enqueued.
    const cl_int code = finish(first_);
    if (code != CL_SUCCESS) failure_.store(code);
  }
}

cl_int CommandQueue::finish(const cl::CommandQueue& queue) const {
  if (device_.has(Quirk::kFinishNeedsCommand)) {
    clEnqueueMarkerWithWaitList(queue(), 0, nullptr, nullptr);
  }
  return clFinish(queue());
}

cl_int CommandQueue::finish() {
  // The new queue does not report failures of the first one.
  const cl_int code = first_busy_.exchange(false) ? finish(first_) : CL_SUCCESS;
  const cl_int later = finish(now());
  const cl_int former = failure_.exchange(CL_SUCCESS);
  return former != CL_SUCCESS ? former : code != CL_SUCCESS ? code : later;
}

}  // namespace ocl
