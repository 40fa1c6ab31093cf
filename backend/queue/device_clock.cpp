#include "backend/queue/device_clock.h"

#include <c10/util/ApproximateClock.h>

#include <algorithm>
#include <limits>

#include "backend/base/error.h"
#include "backend/queue/watchdog.h"

namespace ocl {
namespace {

constexpr int kTries = 4;
// In nanoseconds; more than the error of a reading.
constexpr int64_t kLargestCorrection = 1'000'000;

// Reads the device's clock, with a function of OpenCL 2.1 that not all drivers have.
std::optional<uint64_t> read_timer(Device& device) {
  const DeviceProperties& properties = device.properties();
  if (std::pair(properties.version_major, properties.version_minor) < std::pair(2, 1)) return {};
  using Read = cl_int (*)(cl_device_id, cl_ulong*, cl_ulong*);
  const auto read = reinterpret_cast<Read>(opencl_symbol("clGetDeviceAndHostTimer"));
  cl_ulong device_time = 0, host_time = 0;
  if (!read || read(device.handle()(), &device_time, &host_time) != CL_SUCCESS) return {};
  return device_time;
}

}  // namespace

void DeviceClock::add_reading() {
  // Small commands bound the offset between the clocks: a command ends between two readings of the
  // host's clock, one before it is enqueued and one after the wait. The commands are not markers,
  // because some drivers report no times of markers (backend/queue/stream.cpp).
  int64_t low = std::numeric_limits<int64_t>::min(), high = std::numeric_limits<int64_t>::max();
  Reading last{};
  translated([&] { return str("cannot read the clock of ", device_->label()); },
             [&] {
               cl::CommandQueue queue(device_->context(), device_->handle(),
                                      CL_QUEUE_PROFILING_ENABLE);
               const cl::Buffer scratch(device_->context(), CL_MEM_READ_WRITE, sizeof(cl_int));
               for (int i = 0; i < kTries; ++i) {
                 const int64_t before = c10::getTime();
                 cl::Event event;
                 queue.enqueueFillBuffer(scratch, cl_int{0}, 0, sizeof(cl_int), nullptr, &event);
                 watchdog::watch(*device_, event);
                 event.wait();
                 const int64_t after = c10::getTime();
                 const auto ended = event.getProfilingInfo<CL_PROFILING_COMMAND_END>();
                 low = std::max(low, before - static_cast<int64_t>(ended));
                 high = std::min(high, after - static_cast<int64_t>(ended));
                 last = {after, ended};
               }
             });
  // If the clock stops or jumps, the bounds contradict each other: use the last command alone.
  if (low > high) low = high = last.host - static_cast<int64_t>(last.device);
  int64_t offset = low + (high - low) / 2, narrowest = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < kTries; ++i) {
    const int64_t before = c10::getTime();
    const auto now = read_timer(*device_);
    const int64_t after = c10::getTime();
    if (!now || after - before >= narrowest) continue;
    narrowest = after - before;
    // The clamp ignores the reading if this timer and the events' time stamps have different
    // origins.
    offset = std::clamp(before + narrowest / 2 - static_cast<int64_t>(*now), low, high);
  }
  const Reading reading{static_cast<int64_t>(last.device) + offset, last.device};
  if (readings_.size() == 2) readings_.pop_back();
  readings_.push_back(reading);
}

bool DeviceClock::runs() const {
  if (readings_.size() < 2) return true;
  const auto host = static_cast<double>(readings_[1].host - readings_[0].host);
  const auto device =
      static_cast<double>(readings_[1].device) - static_cast<double>(readings_[0].device);
  return device > host * 0.5 && device < host * 2;
}

int64_t DeviceClock::translate(uint64_t device_time) const {
  const Reading& first = readings_.front();
  const auto since = static_cast<int64_t>(device_time - first.device);
  double rate = 1;
  // In shorter spans, the errors of the readings would look like drift.
  constexpr int64_t kLongEnough = 100'000'000;
  if (const Reading& last = readings_.back(); last.host - first.host > kLongEnough && runs()) {
    rate = static_cast<double>(last.host - first.host) /
           static_cast<double>(last.device - first.device);
  }
  return first.host + since + static_cast<int64_t>(static_cast<double>(since) * (rate - 1));
}

void DeviceClock::started_after(uint64_t device_time, int64_t called) {
  const int64_t early = called - translate(device_time);
  if (early <= kLargestCorrection) correction_ = std::max(correction_, early);
}

int64_t DeviceClock::to_host(uint64_t device_time) const {
  return translate(device_time) + correction_;
}

}  // namespace ocl
