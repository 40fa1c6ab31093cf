// The text of a failed call, for messages that raise() of error.h does not make.
#pragma once

#include <string>

#include "backend/base/opencl.h"

namespace ocl {

// The loader's code for "no platform", CL_PLATFORM_NOT_FOUND_KHR.
inline constexpr cl_int kPlatformNotFound = -1001;

// "<function> failed with <NAME> (<code>)". `function` may be a name that opencl.hpp gives.
std::string failure_text(cl_int code, const char* function);

}  // namespace ocl
