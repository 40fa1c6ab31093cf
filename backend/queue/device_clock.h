// Translates the time stamps of a device's events to the host's clock.
#pragma once

#include <optional>
#include <vector>

#include "backend/device/device.h"

namespace ocl {

class DeviceClock {
 public:
  // Reads both clocks; waits for a few small commands on a queue of its own.
  explicit DeviceClock(Device& device) : device_(&device) { add_reading(); }
  // A second reading, taken later, because clocks drift apart.
  void add_reading();

  // Whether the device has a clock at all: Mesa 22 stamps every event with 0, 1, 2, 3.
  bool runs() const;

  // Reports a command that the host called at `called` (nanoseconds since 1970) and the device
  // started at `device_time`. Later translations are corrected, so that no command starts before
  // its call.
  void started_after(uint64_t device_time, int64_t called);
  // Nanoseconds since 1970.
  int64_t to_host(uint64_t device_time) const;

 private:
  struct Reading {
    int64_t host;
    uint64_t device;
  };
  int64_t translate(uint64_t device_time) const;

  Device* device_;
  std::vector<Reading> readings_;  // one or two readings
  int64_t correction_ = 0;
};

}  // namespace ocl
