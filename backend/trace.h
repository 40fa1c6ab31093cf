// Records the commands that are enqueued while a trace is on: what, by whom, on which queue, and
// when the device ran it. Off, a command costs one load of `trace::on`.
//
//   trace::Call call(stream, trace::Kind::kFill, "clEnqueueFillBuffer");
//   if (call) call->bytes = bytes;
//   clEnqueueFillBuffer(..., call.event());
//
// The command is recorded at the end of the scope, unless it was not enqueued.
#pragma once

#include <c10/util/ApproximateClock.h>

#include <array>
#include <atomic>
#include <optional>
#include <vector>

#include "backend/stream.h"

namespace ocl::trace {

enum class Kind : uint8_t {
  kKernel,
  kCopyToDevice,
  kCopyToHost,
  kCopyOnDevice,
  kFill,
  kMap,
  kUnmap,
  kWait,  // of the host; the device has nothing to do
};

struct Command {
  Kind kind{};
  const char* function = "";            // OpenCL's, or the library's
  const std::string* kernel = nullptr;  // stays where it is
  DeviceIndex device = 0;
  StreamId stream = 0;
  size_t bytes = 0;
  std::array<size_t, 3> global{}, local{};
  int32_t thread = 0;       // of the system
  uint64_t op = 0;          // PyTorch's number of the operator that called; 0: none
  uint64_t annotation = 0;  // and of the innermost record_function() around
  // Of the host, in nanoseconds since 1970 once the trace has stopped.
  int64_t called = 0, returned = 0;
  // Of the device, on the host's clock; 0 and 0 where the device told none.
  int64_t started = 0, ended = 0;
};

// What a trace records: the time of the device costs an event for each command.
struct Recorded {
  bool calls = false;
  bool device_times = false;
};
void start(Recorded what);
// Waits for the recorded commands, and returns them in the order of their calls. None after a
// second stop.
std::vector<Command> stop();

// Operators and annotations that the thread is inside of. Numbers pushed while another trace was on
// count no more.
enum class Scope : uint8_t { kOp, kAnnotation };
void push(Scope scope, uint64_t number);
void pop(Scope scope);

inline std::atomic<bool> on{false};

// One call of OpenCL.
class Call {
 public:
  Call(Stream& stream, Kind kind, const char* function) {
    if (C10_UNLIKELY(on.load(std::memory_order_relaxed))) begin(stream, kind, function);
  }
  ~Call() {
    if (C10_UNLIKELY(command_.has_value())) end();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  explicit operator bool() const { return command_.has_value(); }
  Command* operator->() { return &*command_; }

  // To be handed to the call: nullptr when no event is needed. `wanted` is one that the caller
  // needs itself.
  cl_event* event(cl::Event* wanted = nullptr) {
    if (wanted) wanted_ = wanted;
    return wanted ? &(*wanted)() : with_event_ ? &own_() : nullptr;
  }

  // Instead of an event, where other code enqueues commands: the time from here to the end of the
  // scope is that of the device between two marks.
  void mark_begin(Stream& stream);
  void mark_end(Stream& stream);

 private:
  void begin(Stream& stream, Kind kind, const char* function);
  void end();

  std::optional<Command> command_;
  bool with_event_ = false;
  cl::Event own_, mark_;
  cl::Event* wanted_ = nullptr;
};

}  // namespace ocl::trace
