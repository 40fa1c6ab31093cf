// The first launch of a kernel: drivers may compile there, or wait until the device is idle.
#pragma once

#include <c10/util/FunctionRef.h>

#include <atomic>

#include "backend/program/program_cache.h"

namespace ocl {

// Calls `enqueue`, which launches a kernel that this thread has not launched yet. `launched` is the
// flag that the kernel objects of all threads share (Kernel::launched_by_any).
void launch_first(const Device& device, const Program& program, std::atomic<bool>* launched,
                  c10::function_ref<void()> enqueue);

}  // namespace ocl
