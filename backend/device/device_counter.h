// The number of devices before this process uses one. A helper process counts them: drivers start
// threads when devices are listed, which would break a later fork. It has OCL_LISTING_TIMEOUT
// seconds; then there are no devices, with one warning that names the driver, and using one is an
// error.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <optional>
#include <string>

namespace ocl {

// The helper process begins its answer with this if the rest of the answer is a driver's file.
inline constexpr const char *kDriverHung = "hung ", *kDriverCrashed = "crashed ";

// The number; nullopt if it is not known after this time. Never throws.
std::optional<c10::DeviceIndex> count_devices(std::chrono::milliseconds patience) noexcept;

// Names the driver that hung when count_devices() asked it; empty: none did.
std::string driver_that_hangs();

}  // namespace ocl
