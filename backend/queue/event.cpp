#include "backend/queue/event.h"

#include <future>

#include "backend/base/error.h"
#include "backend/queue/capture.h"
#include "backend/queue/trace.h"
#include "backend/queue/watchdog.h"

namespace ocl {
namespace {

// Waits without clWaitForEvents(), for Quirk::kWaitRunsCommands.
void wait_for_callback(cl::Event event) {
  using Promise = std::shared_ptr<std::promise<void>>;
  const auto reached = std::make_shared<std::promise<void>>();
  const auto notify = [](cl_event, cl_int, void* argument) {
    const std::unique_ptr<Promise> promise(static_cast<Promise*>(argument));
    (*promise)->set_value();
  };
  auto argument = std::make_unique<Promise>(reached);
  event.setCallback(CL_COMPLETE, notify, argument.get());
  argument.release();
  reached->get_future().wait();
  event.wait();  // reports errors of earlier commands
}

}  // namespace

Event::~Event() {
  // Leaked in a forked process, where nothing can be released.
  if (event_() && in_bad_fork()) event_() = nullptr;
}

void Event::record(Stream& stream, bool timed) {
  refuse_fork();
  if (const Capture* capture = stream.capture(); C10_UNLIKELY(capture != nullptr)) {
    event_ = cl::Event();
    capture_ = capture->id();
    stream_ = &stream;
    return;
  }
  if (timed) stream.enable_times();
  const FaultReport report = stream.faults().report();
  record_enqueued(stream, timed);
  report_ = report;
}

// The capture in which the event was recorded; nullptr: none, or it has ended.
Capture* Event::capture() const {
  Capture* now = stream_->capture();
  return now && now->id() == capture_ ? now : nullptr;
}

void Event::record_enqueued(Stream& stream, bool timed) {
  work_ = stream.work();
  event_ = stream.marker(timed);
  capture_ = 0;
  report_ = {};
  position_ = stream.commands();
  stream_ = &stream;
}

// Raises for events of a capture, which mark no time on the device.
void Event::refuse_captured(std::string_view what) const {
  if (C10_LIKELY(capture_ == 0)) return;
  if (Capture* now = capture()) now->refuse(what);
  TORCH_CHECK(false, "cannot ", what,
              " that was recorded in a stream under capture: ", "it is part of the graph");
}

void Event::block(Stream& stream) const {
  refuse_fork();
  if (!recorded() || &stream == stream_) return;
  if (capture_ == 0) return stream.wait_for(event_, *stream_, work_, report_);
  Capture* now = capture();
  if (!now) refuse_captured("wait for an event");
  now->join(stream);
}

cl_int Event::status() const {
  refuse_fork();
  return translated([&] { return str("cannot query an event of ", stream_->device().label()); },
                    [&] { return event_.getInfo<CL_EVENT_COMMAND_EXECUTION_STATUS>(); });
}

bool Event::query() const {
  if (!recorded()) return true;
  refuse_captured("query an event");
  const cl_int found = status();
  if (found < 0) raise(found, "a command before the event", "the device");
  return found == CL_COMPLETE;
}

bool Event::over() const {
  if (!recorded() || capture_ != 0) return true;
  refuse_fork();
  const std::optional<cl_int> found = execution_status(event_);
  if (!found) return false;  // the caller asks again
  if (*found < 0 && !stream_->has_told(position_)) stream_->note_failure(*found);
  return *found <= CL_COMPLETE;
}

void Event::wait(Waiter waiter) const {
  refuse_fork();
  watchdog::watch(*stream_, event_);
  trace::Call call(*stream_, {trace::Kind::kWait, "clWaitForEvents"});
  const bool would_help = stream_->device().has(Quirk::kWaitRunsCommands);
  if (would_help && waiter == Waiter::kSleeps && status() > 0) {
    wait_for_callback(event_);
  } else {
    event_.wait();
  }
}

void Event::wait_until_over(Waiter waiter) const {
  if (over()) return;
  try {
    wait(waiter);
  } catch (const cl::Error&) {
    if (!over()) stream_->drain_quietly();  // over() notes the failure of a command
  }
}

void Event::wait_until_reached() const {
  if (!recorded()) return;
  refuse_captured("wait for an event");
  translated([&] { return str("a command on ", stream_->device().label(), " failed"); },
             [&] { wait(); });
}

void Event::synchronize() const {
  wait_until_reached();
  if (recorded()) stream_->faults().raise_reported(report_);
}

bool Event::timed() const {
  return capture_ == 0 &&
         translated([&] { return str("cannot query an event of ", stream_->device().label()); },
                    [&] {
                      const auto queue = borrowed<cl_command_queue>(
                          clGetEventInfo, event_(), CL_EVENT_COMMAND_QUEUE, "clGetEventInfo");
                      cl_command_queue_properties properties = 0;
                      const cl_int code = clGetCommandQueueInfo(
                          queue, CL_QUEUE_PROPERTIES, sizeof(properties), &properties, nullptr);
                      if (code != CL_SUCCESS) throw cl::Error(code, "clGetCommandQueueInfo");
                      return (properties & CL_QUEUE_PROFILING_ENABLE) != 0;
                    });
}

cl_ulong Event::completed_at() const {
  TORCH_CHECK(stream_->device().properties().has_profiling,
              "elapsed_time: ", stream_->device().label(),
              " measures no times: its driver has no queues with CL_QUEUE_PROFILING_ENABLE");
  const bool has_times = timed();
  TORCH_CHECK(has_times || !stream_->external(),
              "elapsed_time needs a queue with profiling, but the user's queue of this stream was "
              "made without CL_QUEUE_PROFILING_ENABLE");
  TORCH_CHECK(has_times, "elapsed_time needs events that were recorded with times: make both ",
              "with enable_timing=True");
  const cl_ulong time = translated(
      [&] { return str("cannot read the time of an event of ", stream_->device().label()); },
      [&] { return event_.getProfilingInfo<CL_PROFILING_COMMAND_END>(); });
  TORCH_CHECK(time != 0, "elapsed_time: the driver of ", stream_->device().label(),
              " tells no time of an event that has completed (CL_PROFILING_COMMAND_END is 0)");
  return time;
}

double Event::elapsed_ms(const Event& end) const {
  refuse_fork();
  TORCH_CHECK_VALUE(recorded() && end.recorded(),
                    "elapsed_time needs both events to be recorded first");
  refuse_captured("ask for the time of an event");
  end.refuse_captured("ask for the time of an event");
  TORCH_CHECK_VALUE(&stream_->device() == &end.stream_->device(),
                    "elapsed_time needs events of one device, got ", stream_->device().label(),
                    " and ", end.stream_->device().label());
  TORCH_CHECK(query() && end.query(),
              "elapsed_time needs both events to have completed: call synchronize() first");
  // Signed: the end may have been recorded before the start.
  return static_cast<double>(static_cast<int64_t>(end.completed_at() - completed_at())) * 1e-6;
}

}  // namespace ocl
