// The operations in flight. torch.ocl.synchronize() waits for them, as CUDA's does for NCCL's
// kernels.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <list>
#include <vector>

#include "backend/device/device.h"

namespace ocl {

struct OperationInFlight;

// An operation on memory of the devices is in flight while the object lives.
class InFlight {
 public:
  explicit InFlight(std::vector<DeviceIndex> devices);
  ~InFlight();
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

 private:
  const std::list<OperationInFlight>::iterator place_;
};

// While one lives, synchronize() on this thread does not wait for operations, because they need
// this thread to make progress.
class ProgressThread {
 public:
  ProgressThread();
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

 private:
  const bool former_;
};

// Releases an object on a thread that runs collectives. The release of a tensor takes Python's
// lock. If the interpreter is ending, taking the lock ends the thread, and with it the process. So
// after keep_released() objects are leaked instead. keep_released() waits for releases that have
// begun.
class Release {
 public:
  template <typename T>
  static void of(c10::intrusive_ptr<T> object) noexcept {
    if (!begin()) return static_cast<void>(object.release());
    object.reset();
    end();
  }

 private:
  static bool begin() noexcept;
  static void end() noexcept;
};
void keep_released();

}  // namespace ocl
