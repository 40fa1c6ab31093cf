// The one place that decides whether a command is enqueued, or recorded for a graph (capture.h).
//
//   const CommandSink sink(stream);
//   sink.use(buffer);
//   sink.submit(
//       {{.kind = trace::Kind::kFill, .function = "clEnqueueFillBuffer", .bytes = bytes}},
//       [=](cl_command_queue queue, cl_event* event) { return clEnqueueFillBuffer(queue, ...); },
//       [&] { return str("cannot fill ", format_bytes(bytes)); });
#pragma once

#include "backend/base/error.h"
#include "backend/queue/capture.h"
#include "backend/queue/first_launch.h"
#include "backend/queue/memory_hooks.h"
#include "backend/queue/stream.h"
#include "backend/queue/trace.h"

namespace ocl {

// Enqueues body(queue, event), which returns OpenCL's code, and records it in a trace. `failure`
// makes the text of an error. `event`: an event that the caller needs, or nullptr.
template <typename Body, typename Failure>
void enqueue_command(Stream& stream, const trace::CommandInfo& info, const Body& body,
                     const Failure& failure, cl::Event* event = nullptr) {
  cl_int code;
  {
    trace::Call call(stream, info);
    code = enqueue_with_memory(stream.device().index(), [&] {
      return stream.enqueue([&](cl_command_queue queue) { return body(queue, call.event(event)); });
    });
  }
  if (C10_UNLIKELY(code != CL_SUCCESS)) raise(code, failure(), info.function);
}

class CommandSink {
 public:
  explicit CommandSink(Stream& stream) : stream_(stream), capture_(stream.capture()) {}

  Stream& stream() const { return stream_; }

  // The kernel object that a launch sets its arguments on: `own`, or a new one that the graph
  // keeps.
  cl_kernel kernel(cl_kernel own, const Program& program, const std::string& name) const {
    return C10_LIKELY(!capture_) ? own : capture_->make_kernel(program, name);
  }
  // Call for each buffer of a command.
  void use(cl_mem buffer) const {
    if (C10_UNLIKELY(capture_ != nullptr)) capture_->keep(buffer);
  }
  // Returns the site's number, to be set as the argument `index + 1` of the kernel. The argument
  // `index` is the word; each replay binds its own.
  cl_int fault_site(cl_kernel kernel, cl_uint index, int site) const {
    if (C10_LIKELY(!capture_)) return Faults::tagged(site);
    capture_->bind_fault_word(kernel, index);
    return site;
  }
  // `hook` is called before each replay of the command.
  template <typename Hook>
  void before_replay(Hook&& hook) const {
    if (capture_) capture_->before_replay(std::forward<Hook>(hook));
  }

  // Arguments: see enqueue_command(). `body` owns all that it needs except the buffers. Returns
  // whether the command was enqueued; else it is in the graph, and `event` stays empty.
  template <typename Body, typename Failure>
  bool submit(const Command& command, const Body& body, const Failure& failure,
              cl::Event* event = nullptr) const {
    if (C10_UNLIKELY(capture_ != nullptr)) {
      capture_->add({command, body});
      return false;
    }
    const auto enqueue = [&] { enqueue_command(stream_, command, body, failure, event); };
    if (C10_LIKELY(!command.first)) {
      enqueue();
    } else {
      launch_first(stream_.device(), *command.program, command.launched, enqueue);
    }
    if (command.reports_faults) stream_.faults().enqueued();
    command.flush ? stream_.submitted(1) : stream_.submitted();
    return true;
  }

 private:
  Stream& stream_;
  Capture* const capture_;
};

}  // namespace ocl
