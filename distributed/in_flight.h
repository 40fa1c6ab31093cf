// The operations in flight, for which torch.ocl.synchronize() waits as for NCCL's kernels.
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

// On a thread that operations need to make progress, synchronize() does not wait for them.
class ProgressThread {
 public:
  ProgressThread();
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

 private:
  const bool former_;
};

// Releases what the thread of a collective holds last. A tensor's release takes Python's lock,
// which ends the thread, and with it the process, while the interpreter ends. So objects are kept
// from keep_released() on, which waits for releases that have begun.
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
