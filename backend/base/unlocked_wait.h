// Waits for a device, which may need Python's lock to end.
#pragma once

#include <functional>

namespace ocl {

// Runs a wait for the device. The caller may hold Python's lock, which is given up meanwhile: a
// driver's thread may need it to release such memory.
void wait_unlocked(const std::function<void()>& wait);
// Sets the function that does it.
using WaitWrapper = void (*)(const std::function<void()>& wait);
void set_wait_wrapper(WaitWrapper wrapper);

}  // namespace ocl
