// While a graph is captured (graph.h), streams record commands instead of enqueueing them
// (command_sink.h). Each recorded launch has its own kernel object, because a kernel object holds
// its arguments.
//
// A stream that waits for an event of a captured stream is captured, too. All commands form one
// list in the order of their calls: that order respects every event, so a replay needs none.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "backend/program/program_cache.h"
#include "backend/queue/trace.h"

namespace ocl {

struct Command : trace::CommandInfo {
  // Only for kernels.
  const Program* program = nullptr;
  std::atomic<bool>* launched = nullptr;  // Kernel::launched_by_any
  bool first = false;                     // the thread's first launch of the kernel
  bool flush = false;                     // it may take long
  bool reports_faults = false;            // it has a FaultArgument
};

struct RecordedCommand : Command {
  std::function<cl_int(cl_command_queue, cl_event*)> enqueue;
};

// The result of a capture.
struct Recording {
  std::vector<RecordedCommand> commands;
  std::vector<std::function<void()>> hooks;  // called before each replay
  struct FaultSlot {
    cl_kernel kernel;
    cl_uint index;
  };
  std::vector<FaultSlot> faults;  // the arguments to set to the fault word of the replay's stream
  std::vector<cl::Kernel> kernels;
  std::vector<cl::Buffer> buffers;
  std::vector<std::shared_ptr<const void>> kept;
};

class Capture {
 public:
  // Captures `origin`; tensors get memory from the pool (allocator.h).
  Capture(Stream& origin, uint64_t pool);
  ~Capture();  // the streams enqueue again
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  uint64_t id() const { return id_; }
  uint64_t pool() const { return pool_; }
  Stream& origin() const { return origin_; }

  void add(RecordedCommand command);
  // A kernel object that lives as long as the graph.
  cl_kernel make_kernel(const Program& program, const std::string& name);
  // Makes each replay bind its stream's fault word to the argument.
  void bind_fault_word(cl_kernel kernel, cl_uint index);
  // Keep the argument alive as long as the graph.
  void keep(cl_mem buffer);
  void keep(std::shared_ptr<const void> object);
  // `hook` is called before each replay, by one thread at a time.
  void before_replay(std::function<void()> hook);

  // Captures another stream.
  void join(Stream& stream);

  // Raises that `what` cannot be captured; the capture will end with that error.
  [[noreturn]] void refuse(std::string_view what);
  // The text of the first refusal; empty: none.
  const std::string& refused() const { return refused_; }

  Recording take() { return std::move(recording_); }

 private:
  const uint64_t id_, pool_;
  Stream& origin_;
  std::mutex mutex_;  // guards the members below
  std::vector<Stream*> streams_;
  Recording recording_;
  std::string refused_;
};

// While a CapturePause lives, the commands of a captured stream are enqueued, not recorded: for
// data that is made once and kept, such as a table on the device.
class CapturePause {
 public:
  explicit CapturePause(Stream& stream) : stream_(stream), capture_(stream.capture()) {
    if (capture_) stream_.set_capture(nullptr);
  }
  ~CapturePause() {
    if (capture_) stream_.set_capture(capture_);
  }
  CapturePause(const CapturePause&) = delete;
  CapturePause& operator=(const CapturePause&) = delete;

 private:
  Stream& stream_;
  Capture* capture_;
};

// If the stream is captured, keeps a copy of `value` as long as the graph.
template <typename Value>
void keep_in_graph(const Stream& stream, const Value& value) {
  if (Capture* capture = stream.capture()) capture->keep(std::make_shared<const Value>(value));
}

}  // namespace ocl
