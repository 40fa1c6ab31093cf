// For torch.autograd.profiler without Kineto: records an event before and after each operator.
#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/stubs/base.h>

#include "backend/queue/event.h"

namespace ocl {
namespace {

using torch::profiler::impl::ittStubs;
using torch::profiler::impl::ProfilerStubs;
using torch::profiler::impl::ProfilerVoidEventStub;

const Event& as_event(const ProfilerVoidEventStub& event) {
  return *static_cast<const Event*>(event.get());
}

struct Stubs final : ProfilerStubs {
  Stubs() { torch::profiler::impl::registerPrivateUse1Methods(this); }

  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event,
              int64_t* cpu_ns) const override {
    Stream& stream = current_stream(current_device());
    auto recorded = std::make_shared<Event>();
    recorded->record(stream, /*timed=*/true);
    if (device) *device = stream.device().index();
    if (cpu_ns) *cpu_ns = c10::getTime();
    *event = std::move(recorded);
  }

  // Returns microseconds.
  float elapsed(const ProfilerVoidEventStub* start,
                const ProfilerVoidEventStub* end) const override {
    as_event(*start).synchronize();
    as_event(*end).synchronize();
    return static_cast<float>(as_event(*start).elapsed_ms(as_event(*end)) * 1e3);
  }

  // OpenCL has no ranges, so these are ITT's, which VTune shows next to OpenCL commands.
  void mark(const char* name) const override {
    if (ittStubs()->enabled()) ittStubs()->mark(name);
  }
  void rangePush(const char* name) const override {
    if (ittStubs()->enabled()) ittStubs()->rangePush(name);
  }
  void rangePop() const override {
    if (ittStubs()->enabled()) ittStubs()->rangePop();
  }

  bool enabled() const override { return true; }

  void onEachDevice(std::function<void(int)> body) const override {
    const DeviceIndex former = current_device();
    for (DeviceIndex i = 0; i < device_count(); ++i) {
      set_current_device(i);
      body(i);
    }
    set_current_device(former);
  }

  void synchronize() const override { ocl::synchronize(current_device()); }
};

const Stubs stubs;

}  // namespace
}  // namespace ocl
