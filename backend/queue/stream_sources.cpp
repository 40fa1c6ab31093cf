// When a stream waits for an event of another stream, it must later raise that stream's failures:
// Source notes what to check.
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <span>

#include "backend/base/error.h"
#include "backend/base/unlocked_wait.h"
#include "backend/queue/capture.h"
#include "backend/queue/stream.h"
#include "backend/queue/watchdog.h"

namespace ocl {

uint64_t Stream::Source::later_work(uint64_t one, uint64_t other) {
  if (one == kUnknown) return other;
  return other == kUnknown ? one : std::max(one, other);
}

void Stream::Source::add(const FaultReport& report) {
  const auto known = std::ranges::find(reports, report.thread, &FaultReport::thread);
  if (known == reports.end()) {
    reports.push_back(report);
  } else {
    // This event may be older than that of an earlier wait.
    known->number = std::max(known->number, report.number);
  }
}

void Stream::note_source(Stream& source, uint64_t work, const FaultReport& report) {
  std::vector<Source> found{{&source, source.commands(), work, {report}}};
  {
    std::lock_guard lock(source.sources_mutex_);
    std::ranges::copy_if(source.sources_, std::back_inserter(found), &Source::pending);
  }
  // The source may have waited for its own sources after the event.
  if (source.work() != work) {
    for (Source& each : std::span(found).subspan(1)) each.work = Source::kUnknown;
  }
  std::lock_guard lock(sources_mutex_);
  for (const Source& each : found) {
    if (each.stream == this) continue;
    const auto known = std::ranges::find(sources_, each.stream, &Source::stream);
    if (known == sources_.end()) {
      sources_.push_back(each);
    } else {
      known->commands = each.commands;
      known->work = Source::later_work(known->work, each.work);
      known->pending = true;
      for (const FaultReport& one : each.reports) known->add(one);
    }
  }
  waited_.store(true, std::memory_order_relaxed);
}

void Stream::wait_for(Stream& source) {
  const FaultReport report = source.faults().report();
  const uint64_t work = source.work();
  wait_for(source.marker(), source, work, report);
}

void Stream::wait_for(const cl::Event& event, Stream& source, uint64_t work,
                      const FaultReport& report) {
  refuse_capture("wait for commands from before the capture or from a stream outside of it");
  note_source(source, work, report);
  translated([&] { return str("cannot wait for an event of ", source.device_.label()); },
             [&] {
               if (&source.device_ == &device_) {
                 const cl_int code = enqueue([&](cl_command_queue queue) {
                   return clEnqueueBarrierWithWaitList(queue, 1, &event(), nullptr);
                 });
                 if (code != CL_SUCCESS) throw cl::Error(code, "clEnqueueBarrierWithWaitList");
                 submitted();
               } else {
                 // Each device has its own context, and OpenCL cannot wait across contexts.
                 wait_unlocked([&] {
                   watchdog::watch(source, event);
                   event.wait();
                 });
               }
             });
}

// An OpenCL event does not show whether earlier commands of its queue failed. Only clFinish() does,
// but it also waits for later commands.
void Stream::ask_others() {
  constexpr std::chrono::milliseconds kNone{0}, kMarkerTime{20}, kOnlyMarkers{10'000};
  std::vector<Source> sources;
  {
    std::lock_guard lock(sources_mutex_);
    std::ranges::copy_if(sources_, std::back_inserter(sources), &Source::pending);
  }
  for (Source& source : sources) {
    Stream& other = *source.stream;
    if (other.captured()) continue;
    const uint64_t commands = other.commands();
    // Only markers of this stream are left, and they complete by themselves.
    const bool only_markers = !other.shared_ && other.work() == source.work;
    const cl_int status = other.last_status(only_markers  ? kOnlyMarkers
                                            : source.busy ? kNone
                                                          : kMarkerTime);
    {
      std::lock_guard lock(sources_mutex_);
      const auto known = std::ranges::find(sources_, &other, &Source::stream);
      if (status > CL_COMPLETE) {
        known->busy = true;
        continue;
      }
      // Another thread may have made this stream wait for `other` again.
      if (known->commands == source.commands && known->reports == source.reports) {
        known->pending = false;
        known->reports.clear();
      }
      const bool waited = std::ranges::any_of(sources_, &Source::pending);
      waited_.store(waited, std::memory_order_relaxed);
    }
    const bool told = other.has_told(commands);
    watchdog::watch(other);
    cl_int code = other.wait();
    if (code == CL_SUCCESS && !told) code = status;  // CL_COMPLETE is CL_SUCCESS
    if (code != CL_SUCCESS) {
      // A later command may be the one that failed, so the other stream must raise it, too.
      if (commands != source.commands) other.note_failure(code);
      raise(code,
            str("a command of another stream of ", other.device_.label(),
                " failed, for which this stream had waited"),
            "clFinish");
    }
    // The next wait raises the remaining faults.
    const auto keep_rest = c10::make_scope_exit([&] {
      if (source.reports.empty()) return;
      std::lock_guard lock(sources_mutex_);
      const auto known = std::ranges::find(sources_, &other, &Source::stream);
      for (const FaultReport& report : source.reports) known->add(report);
      known->pending = true;
      waited_.store(true, std::memory_order_relaxed);
    });
    while (!source.reports.empty()) {
      const FaultReport report = source.reports.back();
      source.reports.pop_back();
      other.faults_.raise_reported(report);
    }
  }
}

}  // namespace ocl
