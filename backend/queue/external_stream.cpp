// Streams over the queues of users.
#include "backend/base/error.h"
#include "backend/base/system.h"
#include "backend/queue/stream_slots.h"

namespace ocl {
namespace {

// The device of the user's queue; raises where the queue cannot be one of its streams.
Device& device_of_queue(const cl::CommandQueue& queue) {
  constexpr const char* kQuery = "clGetCommandQueueInfo";
  const auto handle =
      borrowed<cl_device_id>(clGetCommandQueueInfo, queue(), CL_QUEUE_DEVICE, kQuery);
  const auto context =
      borrowed<cl_context>(clGetCommandQueueInfo, queue(), CL_QUEUE_CONTEXT, kQuery);
  for (DeviceIndex index = 0; index < device_count(); ++index) {
    Device& found = device(index);
    if (found.handle()() != handle) continue;
    TORCH_CHECK_VALUE(
        found.has_context() && context == found.context()(), "the queue belongs to another ",
        "OpenCL context than ", found.label(),
        ": make it in torch.ocl.context(device), or give yours to torch.ocl.use_context() before "
        "the device is first used");
    TORCH_CHECK_VALUE(
        !(queue.getInfo<CL_QUEUE_PROPERTIES>() & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE),
        "a stream must run its commands in order, but the queue was made with "
        "CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE");
    return found;
  }
  TORCH_CHECK_VALUE(false, "the queue is of none of torch's devices; `python -m torch_ocl.info` ",
                    "shows them");
}

}  // namespace

c10::Stream external_stream(cl_command_queue handle) {
  refuse_fork();
  const auto what = [] { return std::string("the queue cannot be used"); };
  const auto queue =
      translated(what, [&] { return cl::CommandQueue(handle, /*retainObject=*/true); });
  Device& device = *translated(what, [&] { return &device_of_queue(queue); });
  DeviceStreams& streams = streams_of(device.index());
  // Queues of our own streams, which torch.ocl.queue() returns.
  for (const auto& own : streams.slots) {
    Stream* const found = own.load(std::memory_order_acquire);
    if (found && found->queue()() == handle) return found->unpack();
  }
  size_t position = 0;
  {
    std::lock_guard lock(streams.mutex);
    while (position < streams.external.size() && streams.external[position]() != handle) ++position;
    TORCH_CHECK(position < kExternal, "ocl:", int{device.index()}, " has ", kExternal,
                " queues of the user already, which it keeps: make fewer, and reuse them");
    if (position == streams.external.size()) {
      translated(what, [&] { streams.external.push_back(queue); });
    }
  }
  return stream_of_id(device.index(), static_cast<StreamId>(kFirstExternal + position)).unpack();
}

}  // namespace ocl
