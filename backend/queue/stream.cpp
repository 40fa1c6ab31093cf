#include "backend/queue/stream.h"

#include "backend/base/error.h"
#include "backend/base/operator_scope.h"

namespace ocl {
namespace {

// A flush after this many commands: it costs a system call on some drivers and nothing on others.
constexpr uint64_t kFlushInterval = 8;

// A stream has up to twice as many unfinished commands. Waiting for thousands costs nothing: the
// device has work for longer than the host needs to go on.
constexpr uint64_t kDepthInterval = 2048;

void check(cl_int code, const char* function) {
  if (code != CL_SUCCESS) throw cl::Error(code, function);
}

}  // namespace

c10::Stream Stream::unpack() const {
  return c10::Stream(c10::Stream::UNSAFE,
                     c10::Device(c10::DeviceType::PrivateUse1, device_.index()), id_);
}

void Stream::submitted() {
  if (!OperatorScope::active()) fault_thread().command_enqueued();
  const uint64_t before = commands_.fetch_add(1, std::memory_order_relaxed);
  if (before % kFlushInterval == 0) flush();
  if (C10_UNLIKELY(too_deep(before))) limit_depth(before);
}

void Stream::submitted(uint64_t commands) {
  if (!OperatorScope::active()) fault_thread().command_enqueued();
  const uint64_t before = commands_.fetch_add(commands, std::memory_order_relaxed);
  flush();
  if (C10_UNLIKELY(too_deep(before))) limit_depth(before);
}

bool Stream::too_deep(uint64_t commands) const {
  // Signed: another thread may have set a later mark.
  return static_cast<int64_t>(commands - depth_at_.load(std::memory_order_relaxed)) >=
         static_cast<int64_t>(kDepthInterval);
}

void Stream::flush() {
  const cl_int code = clFlush(queue()());
  if (code != CL_SUCCESS) raise(code, str("cannot flush a queue of ", device_.label()), "clFlush");
}

// Some drivers report no times of markers, or wrong ones
// (https://github.com/CHIP-SPV/chipStar/issues/1549, https://github.com/fixstars/clpy/issues/216).
// So a timed marker is a small fill.
void Stream::enqueue_marker(cl::Event& event, bool timed) {
  if (!timed) {
    return check(enqueue([&](cl_command_queue queue) {
                   return clEnqueueMarkerWithWaitList(queue, 0, nullptr, &event());
                 }),
                 "clEnqueueMarkerWithWaitList");
  }
  const cl_int zero = 0;
  if (!scratch_()) scratch_ = cl::Buffer(device_.context(), CL_MEM_READ_WRITE, sizeof(zero));
  check(enqueue([&](cl_command_queue queue) {
          return clEnqueueFillBuffer(queue, scratch_(), &zero, sizeof(zero), 0, sizeof(zero), 0,
                                     nullptr, &event());
        }),
        "clEnqueueFillBuffer");
}

cl::Event Stream::marker(bool timed) {
  return translated([&] { return str("cannot record an event on ", device_.label()); },
                    [&] {
                      cl::Event event;
                      std::lock_guard lock(marker_mutex_);
                      // Read first: commands that other threads enqueue meanwhile are not marked.
                      const uint64_t before = commands_.load(std::memory_order_relaxed);
                      enqueue_marker(event, timed);
                      cl::Event kept(event);  // a failure leaves last_marker_ as it was
                      last_marker_ = std::move(kept);
                      marked_commands_ = before + 1;
                      commands_.fetch_add(1, std::memory_order_relaxed);
                      marks_.fetch_add(1, std::memory_order_release);  // see work()
                      flush();
                      return event;
                    });
}

}  // namespace ocl
