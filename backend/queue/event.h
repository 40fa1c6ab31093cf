// An event marks a point of a stream. Callers wait for it, query it, or measure times between two.
#pragma once

#include "backend/queue/stream.h"

namespace ocl {

class Event {
 public:
  Event() = default;
  ~Event();
  Event(Event&&) = default;
  Event& operator=(Event&&) = default;
  Event(const Event&) = default;
  Event& operator=(const Event&) = default;

  // Marks the current end of `stream`; may be called again. If the stream is captured, the mark is
  // in the capture only. `timed`: for elapsed_ms().
  void record(Stream& stream, bool timed = false);
  // Marks the end of the enqueued commands, even while the stream is captured.
  void record_enqueued(Stream& stream, bool timed = false);
  bool recorded() const { return event_() != nullptr || capture_ != 0; }
  // Whether its queue measures times.
  bool timed() const;

  // Makes later commands of `stream` wait for the mark. No effect before a record().
  void block(Stream& stream) const;
  // Whether the mark has been reached; true before a record(), as torch defines it.
  bool query() const;
  // Blocks the host until the mark has been reached, and raises the faults that kernels before it
  // reported.
  void synchronize() const;

  // Like synchronize(), but leaves the faults of kernels for another caller to raise.
  void wait_until_reached() const;
  // For code that frees memory: these count a failed command as completed, and the stream raises
  // the error later.
  bool over() const;
  // kHelps: the thread may run commands meanwhile, also those after the mark
  // (Quirk::kWaitRunsCommands). The device is slower if the thread only sleeps.
  enum class Waiter : uint8_t { kSleeps, kHelps };
  void wait_until_over(Waiter waiter = Waiter::kSleeps) const;

  // Milliseconds of device time from this event's mark to `end`'s. Both must be `timed`.
  double elapsed_ms(const Event& end) const;

  const cl::Event& handle() const { return event_; }

 private:
  cl_int status() const;
  void wait(Waiter waiter = Waiter::kSleeps) const;
  cl_ulong completed_at() const;
  Capture* capture() const;
  void refuse_captured(std::string_view what) const;

  cl::Event event_;
  Stream* stream_ = nullptr;
  uint64_t capture_ = 0;   // the id of the capture in which it was recorded; 0: none
  uint64_t position_ = 0;  // commands of the stream up to the mark
  uint64_t work_ = 0;      // the stream's work() before the mark
  FaultReport report_;     // the stream's last fault report before the mark
};

}  // namespace ocl
