// What a stream knows of those that it has waited for: they may have failed before.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <span>

#include "backend/capture.h"
#include "backend/error.h"
#include "backend/fault.h"
#include "backend/stream.h"
#include "backend/watchdog.h"

namespace ocl {

uint64_t Stream::Source::later_work(uint64_t one, uint64_t other) {
  if (one == kUnknown) return other;
  return other == kUnknown ? one : std::max(one, other);
}

void Stream::note_source(Stream& source, uint64_t work, uint64_t report) {
  std::vector<Source> found{{&source, source.commands(), work, report}};
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
      // This event may be older than that of an earlier wait.
      const Source former = *known;
      *known = each;
      known->report = std::max(former.report, each.report);
      known->work = Source::later_work(former.work, each.work);
      known->busy = former.busy;
    }
  }
  waited_.store(true, std::memory_order_relaxed);
}

// OpenCL does not tell by an event whether earlier commands of its queue failed: only clFinish
// does, which waits for later commands, too.
void Stream::ask_others() {
  constexpr std::chrono::milliseconds kNone{0}, kMarkerTime{20}, kOnlyMarkers{10'000};
  std::vector<Source> sources;
  {
    std::lock_guard lock(sources_mutex_);
    std::ranges::copy_if(sources_, std::back_inserter(sources), &Source::pending);
  }
  for (const Source& source : sources) {
    Stream& other = *source.stream;
    if (other.capture()) continue;
    const uint64_t commands = other.commands();
    // Of the stream's own commands, only markers are left, and these end by themselves.
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
      // Another thread may have made this stream wait anew.
      if (known->commands == source.commands && known->report == source.report) {
        known->pending = false;
      }
      const bool waited = std::ranges::any_of(sources_, &Source::pending);
      waited_.store(waited, std::memory_order_relaxed);
    }
    const bool told = other.has_told(commands);
    watchdog::watch(other);
    cl_int code = other.wait();
    if (code == CL_SUCCESS && !told) code = status;  // CL_COMPLETE is CL_SUCCESS
    if (code != CL_SUCCESS) {
      // A later command may have failed, of which this stream need not know.
      if (commands != source.commands) other.note_failure(code);
      raise(code,
            str("a command of another stream of ", other.device_.label(),
                " failed, for which this stream had waited"),
            "clFinish");
    }
    other.faults_->raise_reported(source.report);
  }
}

}  // namespace ocl
