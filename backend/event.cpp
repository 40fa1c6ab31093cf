#include "backend/event.h"

#include "backend/capture.h"
#include "backend/error.h"
#include "backend/fault.h"
#include "backend/trace.h"

namespace ocl {

void Event::record(Stream& stream) {
  const Capture* capture = stream.capture();
  if (C10_LIKELY(!capture)) return record_enqueued(stream);
  event_ = cl::Event();
  capture_ = capture->id();
  stream_ = &stream;
}

void Event::record_enqueued(Stream& stream) {
  event_ = stream.marker();
  capture_ = 0;
  stream_ = &stream;
}

// An event of a capture marks no moment of the device's time.
void Event::refuse_captured(std::string_view what) const {
  if (C10_LIKELY(capture_ == 0)) return;
  Capture* capture = stream_->capture();
  if (capture && capture->id() == capture_) capture->refuse(what);
  TORCH_CHECK(false, "cannot ", what,
              " that was recorded in a stream under capture: ", "it is part of the graph");
}

void Event::block(Stream& stream) const {
  if (!recorded() || &stream == stream_) return;
  if (capture_ == 0) return stream.wait_for(event_, stream_->device());
  Capture* capture = stream_->capture();
  if (!capture || capture->id() != capture_) refuse_captured("wait for an event");
  capture->join(stream);
}

bool Event::query() const {
  if (!recorded()) return true;
  refuse_captured("query an event");
  return translated([&] { return str("cannot query an event of ", stream_->device().label()); },
                    [&] {
                      const cl_int status = event_.getInfo<CL_EVENT_COMMAND_EXECUTION_STATUS>();
                      if (status < 0) raise(status, "a command before the event", "the device");
                      return status == CL_COMPLETE;
                    });
}

void Event::synchronize() const {
  if (!recorded()) return;
  refuse_captured("wait for an event");
  translated([&] { return str("a command on ", stream_->device().label(), " failed"); },
             [&] {
               trace::Call call(*stream_, trace::Kind::kWait, "clWaitForEvents");
               event_.wait();
             });
  stream_->faults().check();
}

cl_ulong Event::completed_at() const {
  TORCH_CHECK(stream_->queue().getInfo<CL_QUEUE_PROPERTIES>() & CL_QUEUE_PROFILING_ENABLE,
              "elapsed_time needs a queue that measures time, but this stream's, of the user, was "
              "made without CL_QUEUE_PROFILING_ENABLE");
  return translated(
      [&] { return str("cannot read the time of an event of ", stream_->device().label()); },
      [&] { return event_.getProfilingInfo<CL_PROFILING_COMMAND_END>(); });
}

double Event::elapsed_ms(const Event& end) const {
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
