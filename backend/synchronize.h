// Work that other threads will enqueue on a device, and for which synchronize() (stream.h) waits.
#pragma once

#include "backend/device.h"

namespace ocl {

// `hook` is called at the start of each synchronize(). There is one hook.
void before_synchronize(void (*hook)(DeviceIndex)) noexcept;

}  // namespace ocl
