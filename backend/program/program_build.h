// Programs made of source, or of what an earlier process kept of them.
//
// A program is built in one step, or compiled and then linked: a driver with Quirk::kBinaryCompiles
// has the compiled object for nothing, and the binary of a whole program at the price of compiling
// it again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backend/device/device.h"

namespace ocl {

enum class BuildSteps : uint8_t { kOne, kCompileAndLink };

struct ProgramSource {
  std::string file, label;  // for messages
  std::string options, source;
};

struct BuiltProgram {
  cl::Program handle;
  std::string object;  // of kCompileAndLink
};

// Whether compilers' logs are shown, even if the build succeeds (OCL_BUILD_LOG).
bool shows_build_logs();

// RuntimeError with the compiler's log when the source cannot be built.
BuiltProgram build_program(Device& device, const ProgramSource& text, BuildSteps steps);

// `binary` is that of a program built in the same steps: for kCompileAndLink, the object. Throws
// cl::Error when the driver does not accept it.
cl::Program program_of_binary(Device& device, std::string_view binary, const std::string& options,
                              BuildSteps steps);

// Empty: the driver has none.
std::string binary_of(const cl::Program& program);

}  // namespace ocl
