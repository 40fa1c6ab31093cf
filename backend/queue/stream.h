// A stream is an in-order OpenCL command queue. Every device has a default stream and a pool of
// streams for each priority; each thread has a current stream per device.
//
//   Stream& stream = ocl::current_stream(device_index);
//   stream.enqueue([&](cl_command_queue queue) { return clEnqueueFillBuffer(queue, ...); });
//   stream.submitted();
//   stream.finish();
#pragma once

#include <c10/core/Stream.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "backend/queue/command_queue.h"
#include "backend/queue/fault.h"

namespace ocl {

using c10::StreamId;

inline constexpr int kStreamsPerPriority = 32;
inline constexpr int kStagingStreams = 8;

// Records the commands of a stream while a graph is captured; see capture.h.
class Capture;
class Event;

class Stream {
 public:
  Stream(Device& device, StreamId id);
  ~Stream();

  Device& device() const { return device_; }
  StreamId id() const { return id_; }
  // Whether the queue is a user's.
  bool external() const { return id_ > 2 * kStreamsPerPriority + kStagingStreams; }
  c10::Stream unpack() const;

  // See command_queue.h.
  const cl::CommandQueue& queue() const { return queue_.now(); }
  template <typename Body>
  cl_int enqueue(Body&& body) {
    return queue_.enqueue(std::forward<Body>(body));
  }
  void enable_times() { queue_.enable_times(); }
  // The queue for code that keeps the handle: from now on, the stream does not change its queue.
  const cl::CommandQueue& lasting_queue() {
    enable_times();
    shared_.store(true, std::memory_order_relaxed);
    return queue();
  }

  // Call after each command. Flushes every few commands, so that the device works while the host
  // prepares more. Waits while thousands of commands are unfinished: drivers keep memory for each.
  void submitted();
  void flush();

  // Blocks until all commands have completed, and raises the faults that kernels reported.
  void finish();
  // Blocks, and raises only when a command failed.
  void drain();
  // Raises the failures and faults of streams for whose events this one has waited, because its
  // results may depend on theirs. Call after this stream's commands have completed. A stream that
  // still has later commands to run is checked at the next call.
  void raise_failures_of_others() {
    if (C10_UNLIKELY(waited_.load(std::memory_order_relaxed))) ask_others();
  }
  // Blocks, and leaves failures for the next drain(): for callers that cannot raise, or are not
  // concerned.
  void drain_quietly() noexcept;
  // An event has shown that a command failed; the next drain() raises `code`.
  void note_failure(cl_int code) { failure_.store(code, std::memory_order_relaxed); }
  // The number of commands so far.
  uint64_t commands() const { return commands_.load(std::memory_order_relaxed); }
  // The number of commands so far, without markers.
  uint64_t work() const {
    const uint64_t marks = marks_.load(std::memory_order_acquire);
    return commands() - marks;
  }
  // Whether a wait has already reported the failures of the first `commands` commands.
  bool has_told(uint64_t commands) const {
    return commands <= told_.load(std::memory_order_relaxed);
  }
  // Whether all commands have completed, without blocking.
  bool idle();

  // Makes later commands wait for `event` of another stream, maybe of another device. `work` and
  // `report`: work() and faults().report() of the other stream just before the event.
  void wait_for(const cl::Event& event, Stream& source, uint64_t work, const FaultReport& report);
  // Makes later commands wait for all commands of another stream so far.
  void wait_for(Stream& source);
  // An event that completes after all commands that were enqueued so far. `timed`: its times will
  // be read.
  cl::Event marker(bool timed = false);

  // submitted() for several commands.
  void submitted(uint64_t commands);

  Faults& faults() { return faults_; }
  const Faults& faults() const { return faults_; }

  // The capture that records the commands; nullptr: they are enqueued.
  Capture* capture() const { return capture_.load(std::memory_order_relaxed); }
  bool captured() const { return capture() != nullptr; }
  void set_capture(Capture* capture) { capture_.store(capture, std::memory_order_relaxed); }
  // Raises while the stream is captured: `what` ("synchronize a stream") cannot be in a graph.
  void refuse_capture(std::string_view what) const {
    if (C10_UNLIKELY(captured())) raise_captured(what);
  }

 private:
  [[noreturn]] void raise_captured(std::string_view what) const;
  void enqueue_marker(cl::Event& event, bool timed);
  cl_int last_status(std::chrono::milliseconds patience);
  cl_int wait();
  // A stream that this one waited for, directly or through others.
  struct Source {
    static constexpr uint64_t kUnknown = UINT64_MAX;
    static uint64_t later_work(uint64_t one, uint64_t other);

    Stream* stream;
    uint64_t commands;                 // commands() of `stream` at the last wait for it
    uint64_t work;                     // the part of its work() that the wait covered
    std::vector<FaultReport> reports;  // the last report before the waits, for each thread
    bool pending = true;               // whether it must be checked for failures
    bool busy = false;  // had later commands at the last check: do not wait for them again

    void add(const FaultReport& report);
  };
  void note_source(Stream& source, uint64_t work, const FaultReport& report);
  void ask_others();
  bool too_deep(uint64_t commands) const;
  void limit_depth(uint64_t commands);

  Device& device_;
  StreamId id_;
  CommandQueue queue_;
  std::atomic<bool> shared_;  // other code enqueues commands, which commands_ does not count
  std::atomic<Capture*> capture_{nullptr};
  Faults faults_;
  std::atomic<uint64_t> commands_{0};
  std::atomic<uint64_t> marks_{0};     // the markers among the commands
  std::atomic<uint64_t> finished_{0};  // the value of commands_ at the last finish()
  std::atomic<uint64_t> told_{0};      // commands_ at the last wait that reported a failure
  std::atomic<cl_int> failure_{CL_SUCCESS};
  std::mutex marker_mutex_;  // guards the three members below
  uint64_t marked_commands_ = 0;
  cl::Event last_marker_;
  cl::Buffer scratch_;                 // timed markers write to it
  std::atomic<uint64_t> depth_at_{0};  // the value of commands_ at the last depth_mark_
  std::mutex depth_mutex_;             // guards the member below
  std::unique_ptr<Event> depth_mark_;
  std::atomic<bool> waited_{false};  // a source is pending
  std::mutex sources_mutex_;         // guards the member below
  std::vector<Source> sources_;
};

// Whether streams with this id have high priority.
bool high_priority(StreamId id) noexcept;

Stream& stream(c10::Stream stream);
Stream& default_stream(DeviceIndex device);
Stream& current_stream(DeviceIndex device);
c10::Stream stream_from_pool(DeviceIndex device, bool high_priority);
// The stream over a user's queue, which must be in order and in the device's context. The same
// queue gives the same stream, which lives until the process ends.
c10::Stream external_stream(cl_command_queue queue);
// A stream for the backend's own copies; users cannot reach it.
c10::Stream staging_stream(DeviceIndex device);
// Makes `stream` this thread's current stream of its device, and returns the previous one.
c10::Stream exchange_stream(c10::Stream stream);

// Sets the hook that each synchronize() calls first. It waits for threads that still have work to
// enqueue.
void before_synchronize(void (*hook)(DeviceIndex)) noexcept;
// Waits for every stream of the device, then raises the first failure or fault. The next
// synchronisation raises the next fault.
void synchronize(DeviceIndex device);
// The same, but leaves failures and faults to the next synchronisation of the thread that caused
// them.
void synchronize_quietly(DeviceIndex device);
// Waits for every stream. The next synchronisation of a stream raises its failure.
void drain(DeviceIndex device) noexcept;
// For the end of the process. Waits for the commands that are enqueued now, since other threads may
// go on to enqueue. Leaves out users' queues, which may wait for an event that never comes.
void wait_for_commands_so_far(DeviceIndex device) noexcept;

}  // namespace ocl
