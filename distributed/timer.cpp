// The time stamps of DistributedDataParallel's statistics, by events of the device
// (`model._get_ddp_logging_data()`).
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <array>

#include "backend/queue/event.h"

namespace ocl {
namespace {

class OclTimer final : public c10d::Timer {
 public:
  explicit OclTimer(c10::Device device) : device_(device) {}

  void record(Event event) override {
    Timer::record(event);  // the host's time
    mark(event).record(current_stream(device_.index()));
  }

  std::optional<int64_t> measureDifference(Event start, Event end) override {
    if (!mark(start).recorded() || !mark(end).recorded()) return std::nullopt;
    // No statistics for streams without times (GPUs, unless OCL_PROFILING=1): they are not worth a
    // slower queue.
    if (!mark(start).timed() || !mark(end).timed()) return std::nullopt;
    mark(start).synchronize();
    mark(end).synchronize();
    const auto nanoseconds = static_cast<int64_t>(mark(start).elapsed_ms(mark(end)) * 1e6);
    if (nanoseconds < 0) return std::nullopt;  // the events come from different iterations
    return nanoseconds;
  }

 private:
  ocl::Event& mark(Event event) { return marks_.at(static_cast<size_t>(event)); }

  c10::Device device_;
  std::array<ocl::Event, 5> marks_;
};

}  // namespace
}  // namespace ocl

namespace c10d {
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::kPrivateUse1, ocl::OclTimer)
}  // namespace c10d
