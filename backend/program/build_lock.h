// A lock between processes, for one program, while PoCL reads and writes it.
//
// PoCL keeps programs in a folder that processes share. Until release 6 it replaces a file there by
// removing it first (pocl_write_file() in lib/CL/pocl_file_util.c): another process that builds the
// same program then fails, or crashes. So processes that start at once build a program one after
// another; the later ones find what the first one has written. PoCL renames the kernels that it
// compiles at launches, which need no lock.
//
//   const BuildLock lock(device, key);
//
// The system releases the locks of a process that ends. Others wait for a process that is stopped,
// or whose compiler hangs, for kPatience, and then go on without the lock. There is no lock for
// other drivers, nor in a folder where no file can be made.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "backend/device/device.h"

namespace ocl {

class BuildLock {
 public:
  static constexpr std::chrono::milliseconds kPatience{30'000};

  // Programs with other keys are not locked.
  BuildLock(const Device& device, const std::string& key,
            std::chrono::milliseconds patience = kPatience);
  ~BuildLock();
  BuildLock(const BuildLock&) = delete;
  BuildLock& operator=(const BuildLock&) = delete;

  bool locked() const { return position_ >= 0; }

 private:
  std::unique_lock<std::mutex> among_threads_;
  int64_t position_ = -1;  // the locked byte in the file
};

}  // namespace ocl
