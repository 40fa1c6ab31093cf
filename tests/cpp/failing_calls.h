// Calls of OpenCL that fail on purpose, which drivers do not do when a test asks.
#pragma once

namespace ocl::test {

// While it lives, no marker can be enqueued.
class FailingMarkers {
 public:
  FailingMarkers();
  ~FailingMarkers();
  FailingMarkers(const FailingMarkers&) = delete;
};

// While it lives, all events tell that their commands failed.
class FailingCommands {
 public:
  FailingCommands();
  ~FailingCommands();
  FailingCommands(const FailingCommands&) = delete;
};

}  // namespace ocl::test
