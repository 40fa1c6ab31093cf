// While a trace is on, it records each enqueued command: its kind and size, the operator and thread
// that called it, its queue, and when the device ran it. While it is off, a command costs one load
// of `trace::on`.
//
//   trace::Call call(
//       stream, {.kind = trace::Kind::kFill, .function = "clEnqueueFillBuffer", .bytes = bytes});
//   clEnqueueFillBuffer(..., call.event());
//
// The command is recorded at the end of the scope, unless it was not enqueued.
#pragma once

#include <c10/util/ApproximateClock.h>

#include <array>
#include <atomic>
#include <optional>
#include <vector>

#include "backend/queue/stream.h"

namespace ocl::trace {

enum class Kind : uint8_t {
  kKernel,
  kCopyToDevice,
  kCopyToHost,
  kCopyOnDevice,
  kFill,
  kMap,
  kUnmap,
  kWait,  // a wait of the host, not a command
};

// The part of a record that the caller of the command gives.
struct CommandInfo {
  Kind kind{};
  const char* function = "";            // the name of the OpenCL or library function
  const std::string* kernel = nullptr;  // the kernel's name; must stay at its address
  size_t bytes = 0;
  std::array<size_t, 3> global{}, local{};
};

struct Command : CommandInfo {
  DeviceIndex device = 0;
  StreamId stream = 0;
  int32_t thread = 0;       // the system's id of the thread
  uint64_t op = 0;          // PyTorch's number for the calling operator; 0: none
  uint64_t annotation = 0;  // the number of the innermost record_function() around the call
  // Times of the host's call, in nanoseconds since 1970 once the trace has stopped.
  int64_t called = 0, returned = 0;
  // Times of the device, on the host's clock; both 0 where the device gave none.
  int64_t started = 0, ended = 0;
};

// Which parts a trace records. Device times cost an event for each command.
struct Recorded {
  bool calls = false;
  bool device_times = false;
};
void start(Recorded what);
// Waits for the recorded commands, and returns them in the order of their calls. A second stop
// returns none.
std::vector<Command> stop();

// A stack of the operators and annotations that the thread is in. Ignores numbers of an earlier
// trace.
enum class Scope : uint8_t { kOp, kAnnotation };
void push(Scope scope, uint64_t number);
void pop(Scope scope);

inline std::atomic<bool> on{false};

// One call of an OpenCL function.
class Call {
 public:
  Call(Stream& stream, const CommandInfo& info) {
    if (C10_UNLIKELY(on.load(std::memory_order_relaxed))) begin(stream, info);
  }
  ~Call() {
    if (C10_UNLIKELY(command_.has_value())) end();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // The event argument for the call: nullptr when no event is needed. `wanted`: where the caller
  // wants the event, or nullptr.
  cl_event* event(cl::Event* wanted = nullptr) {
    if (wanted) wanted_ = wanted;
    return wanted ? &(*wanted)() : with_event_ ? &own_() : nullptr;
  }

 private:
  void begin(Stream& stream, const CommandInfo& info);
  void end();

  std::optional<Command> command_;
  bool with_event_ = false;
  cl::Event own_;
  cl::Event* wanted_ = nullptr;
};

}  // namespace ocl::trace
