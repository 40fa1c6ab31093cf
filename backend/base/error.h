// Translates OpenCL's errors: the text has the attempt, the device, the code's name and a hint.
//
//   translated([&] { return str("cannot allocate ", bytes, " on ", device); },
//              [&] { return cl::Buffer(context, flags, size); });
#pragma once

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <string>
#include <utility>

#include "backend/base/opencl.h"

namespace ocl {

using c10::str;

// "CL_OUT_OF_RESOURCES" for -5; "unknown OpenCL error" for a code that is in no header.
const char* error_name(cl_int code) noexcept;

// Advice for users about `code`.
const char* error_hint(cl_int code) noexcept;

// Whether `code` means that memory ran out (of the device or of the host).
bool is_out_of_memory(cl_int code) noexcept;

// "3.00 GiB", "512 bytes".
std::string format_bytes(size_t bytes);

// Throws c10::Error: "<what>: <function> failed with <NAME> (<code>). <hint>".
[[noreturn]] void raise(cl_int code, const std::string& what, const char* function);

// Runs `body`; an OpenCL failure in it is raised with the text that `what()` returns.
template <typename What, typename Body>
auto translated(What&& what, Body&& body) {
  try {
    return body();
  } catch (const cl::Error& error) {
    raise(error.err(), what(), error.what());
  }
}

}  // namespace ocl
