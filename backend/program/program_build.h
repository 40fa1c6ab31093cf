// Makes programs from source, or from the binaries that an earlier process stored.
//
// A program is built in one step, or compiled and then linked: a driver with Quirk::kBinaryCompiles
// gives the binary of a compiled object at once, but compiles a linked program again for its
// binary.
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
  std::string object;  // only for kCompileAndLink
};

// Whether to show compilers' logs even if the build succeeds (OCL_BUILD_LOG).
bool shows_build_logs();

// RuntimeError with the compiler's log when the source cannot be built.
BuiltProgram build_program(Device& device, const ProgramSource& text, BuildSteps steps);

// `binary` must come from a program built in the same steps; for kCompileAndLink it is the
// object's. Throws cl::Error when the driver does not accept it.
cl::Program program_of_binary(Device& device, std::string_view binary, const std::string& options,
                              BuildSteps steps);

// The binary to store; empty if the driver has none.
std::string binary_of(const cl::Program& program);

}  // namespace ocl
