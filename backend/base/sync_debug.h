// Warns or raises at each operation that makes the host wait for the device, if the user asks for
// it (torch.ocl.set_sync_debug_mode).
#pragma once

#include <c10/util/Exception.h>

#include <atomic>
#include <string_view>

namespace ocl {

enum class SyncDebug { kOff, kWarn, kError };

inline std::atomic<SyncDebug> sync_debug{SyncDebug::kOff};

// Call before the host waits.
inline void note_wait(std::string_view what) {
  const SyncDebug mode = sync_debug.load(std::memory_order_relaxed);
  if (C10_LIKELY(mode == SyncDebug::kOff)) return;
  TORCH_CHECK(mode != SyncDebug::kError, "called a synchronizing OpenCL operation: ", what);
  TORCH_WARN("called a synchronizing OpenCL operation: ", what);
}

}  // namespace ocl
