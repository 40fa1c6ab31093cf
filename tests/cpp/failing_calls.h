// Calls of OpenCL that fail on purpose, which drivers do not do when a test asks, and calls that
// tests watch.
#pragma once

#include <functional>

namespace ocl::test {

// While it lives, no marker can be enqueued.
class FailingMarkers {
 public:
  FailingMarkers();
  ~FailingMarkers();
  FailingMarkers(const FailingMarkers&) = delete;
};

// While it lives, all events report that their commands failed.
class FailingCommands {
 public:
  FailingCommands();
  ~FailingCommands();
  FailingCommands(const FailingCommands&) = delete;
};

// The next launches of kernels, or the next fills, fail because memory ran out.
void fail_launches(int count);
void fail_fills(int count);
// The next builds, or the next links of compiled objects, fail.
void fail_builds(int count);
void fail_links(int count);

// Called at the start of each build, by the thread that builds; an empty function ends that.
void on_build(std::function<void()> action);
// Called at the start of each wait for events, by the thread that waits.
void on_wait(std::function<void()> action);
// Called with the host memory of each read.
void on_read(std::function<void(const void*)> action);

}  // namespace ocl::test
