// An event marks a point of a stream: it can be waited for, asked, and timed.
#pragma once

#include "backend/stream.h"

namespace ocl {

class Event {
 public:
  // Marks the present end of `stream`; may be called again.
  void record(Stream& stream);
  bool recorded() const { return event_() != nullptr; }

  // Makes later commands of `stream` wait for the mark. No effect before a record().
  void block(Stream& stream) const;
  // Whether the mark has been reached; true before a record(), as torch defines it.
  bool query() const;
  // Blocks the host until the mark has been reached.
  void synchronize() const;

  // Milliseconds of device time from this event's mark to `end`'s.
  double elapsed_ms(const Event& end) const;

  const cl::Event& handle() const { return event_; }

 private:
  cl_ulong completed_at() const;

  cl::Event event_;
  Stream* stream_ = nullptr;
};

}  // namespace ocl
