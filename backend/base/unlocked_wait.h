// Waits for a device without Python's lock.
#pragma once

#include <functional>

namespace ocl {

// Runs a wait for the device. If the caller holds Python's lock, it is released meanwhile: a
// driver's thread may need it to release memory that Python owns.
void wait_unlocked(const std::function<void()>& wait);
// Sets the function that releases Python's lock around `wait`.
using WaitWrapper = void (*)(const std::function<void()>& wait);
void set_wait_wrapper(WaitWrapper wrapper);

}  // namespace ocl
