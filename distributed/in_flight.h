// The operations in flight, for which torch.ocl.synchronize() waits as for NCCL's kernels.
#pragma once

#include <list>
#include <vector>

#include "backend/device.h"

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

}  // namespace ocl
