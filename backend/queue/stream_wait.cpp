// How the host waits for a stream.
#include <chrono>
#include <thread>

#include "backend/base/error.h"
#include "backend/base/unlocked_wait.h"
#include "backend/program/program_cache.h"
#include "backend/queue/event.h"
#include "backend/queue/trace.h"
#include "backend/queue/watchdog.h"

namespace ocl {

// Records a mark, and waits for the mark before it.
void Stream::limit_depth(uint64_t commands) {
  auto mark = std::make_unique<Event>();
  {
    std::lock_guard lock(depth_mutex_);
    if (!too_deep(commands)) return;  // another thread has done it
    mark->record_enqueued(*this);
    depth_at_.store(commands, std::memory_order_relaxed);
    std::swap(mark, depth_mark_);
  }
  if (mark && !mark->over()) wait_unlocked([&] { mark->wait_until_over(Event::Waiter::kHelps); });
}

// Waits; returns the code of a failure, but each failure only once.
cl_int Stream::wait() {
  const uint64_t commands = commands_.load(std::memory_order_relaxed);
  cl_int code;
  {
    trace::Call call(*this, {trace::Kind::kWait, "clFinish"});
    code = queue_.finish();
  }
  const cl_int noted = failure_.exchange(CL_SUCCESS, std::memory_order_relaxed);
  if (code == CL_SUCCESS) code = noted;
  (code == CL_SUCCESS ? finished_ : told_).store(commands, std::memory_order_relaxed);
  return code;
}

void Stream::drain() {
  watchdog::watch(*this);
  const cl_int code = wait();
  if (code != CL_SUCCESS) {
    raise(code, str("a command on ", device_.label(), " failed"), "clFinish");
  }
}

void Stream::drain_quietly() noexcept {
  if (!watchdog::ends(*this)) return;
  const cl_int code = wait();
  if (code != CL_SUCCESS) note_failure(code);
}

void Stream::finish() {
  refuse_capture("wait for a stream");
  const FaultReport report = faults_.report();
  drain();
  store_programs();
  faults_.raise_reported(report);
  raise_failures_of_others();
}

bool Stream::idle() {
  refuse_capture("query a stream");
  // Even in an idle queue, the driver needs a moment for a new marker.
  constexpr std::chrono::milliseconds kMarkerTime{1};
  const bool shared = shared_.load(std::memory_order_relaxed);
  const cl_int status = last_status(shared ? kMarkerTime : std::chrono::milliseconds(0));
  if (status < 0) raise(status, str("a command on ", device_.label(), " failed"), "the device");
  return status == CL_COMPLETE;
}

// The status of the last command: returns once it has completed, at the latest after `patience`.
cl_int Stream::last_status(std::chrono::milliseconds patience) {
  const uint64_t commands = commands_.load(std::memory_order_relaxed);
  const bool shared = shared_.load(std::memory_order_relaxed);
  if (!shared && commands == finished_.load(std::memory_order_relaxed)) return CL_COMPLETE;
  cl::Event last;
  if (!shared) {
    std::lock_guard lock(marker_mutex_);
    if (marked_commands_ == commands) last = last_marker_;
  }
  if (!last()) last = marker();
  const auto read = [&] {
    return translated([&] { return str("cannot query ", device_.label()); },
                      [&] { return last.getInfo<CL_EVENT_COMMAND_EXECUTION_STATUS>(); });
  };
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kAwake{1};
  constexpr std::chrono::microseconds kSleep{200};
  auto status = read();
  for (const auto begin = Clock::now(); status > CL_COMPLETE; status = read()) {
    const auto waited = Clock::now() - begin;
    if (waited >= patience) break;
    if (waited > kAwake) std::this_thread::sleep_for(kSleep);  // a CPU's runtime needs the core
  }
  return status;
}

}  // namespace ocl
