#include "backend/program/program_build.h"

#include <cstdio>

#include "backend/base/environment.h"
#include "backend/base/error.h"
#include "backend/base/failure_text.h"
#include "backend/base/printable.h"
#include "backend/program/build_log.h"

namespace ocl {
namespace {

constexpr int kLinkAttempts = 8;  // the row of Quirk::kBinaryCompiles says why a link may fail

cl::Program linked(Device& device, const cl::Program& object) {
  const cl_device_id target = device.handle()();
  const cl_program part = object();
  for (int attempt = 1;; ++attempt) {
    cl_int code = CL_SUCCESS;
    cl::Program program(
        clLinkProgram(device.context()(), 1, &target, "", 1, &part, nullptr, nullptr, &code));
    if (code == CL_SUCCESS) return program;
    if (attempt == kLinkAttempts) throw cl::Error(code, "clLinkProgram");
  }
}

}  // namespace

bool shows_build_logs() {
  static const bool shows = environment_flag("OCL_BUILD_LOG");
  return shows;
}

BuiltProgram build_program(Device& device, const ProgramSource& text, BuildSteps steps) {
  const auto what = [&] { return str("cannot compile ", text.file, " for ", device.label()); };
  cl::Program program =
      translated(what, [&] { return cl::Program(device.context(), text.source); });
  const auto log = [&]() -> std::string {
    try {
      return with_marked_lines(program.getBuildInfo<CL_PROGRAM_BUILD_LOG>(device.handle()),
                               text.source);
    } catch (const cl::Error& error) {
      return str("no log: ", failure_text(error.err(), error.what()));
    }
  };
  // Does not call the methods of cl::Program: if they cannot read the log, they raise that error
  // instead of the build's.
  const bool links = steps == BuildSteps::kCompileAndLink;
  const cl_device_id target = device.handle()();
  const cl_int code =
      links ? clCompileProgram(program(), 1, &target, text.options.c_str(), 0, nullptr, nullptr,
                               nullptr, nullptr)
            : clBuildProgram(program(), 1, &target, text.options.c_str(), nullptr, nullptr);
  TORCH_CHECK(code == CL_SUCCESS, "cannot build ", text.file, " for ", device.label(), " [",
              text.label, "]: ", failure_text(code, links ? "clCompileProgram" : "clBuildProgram"),
              ". ", error_hint(code), "\n", printable(log()));
  if (shows_build_logs()) {
    std::fprintf(stderr, "%s [%s] on %s:\n%s\n", text.file.c_str(), text.label.c_str(),
                 device.label().c_str(), log().c_str());
  }
  if (!links) return {program, {}};
  return translated(what, [&] {
    return BuiltProgram{linked(device, program), binary_of(program)};
  });
}

cl::Program program_of_binary(Device& device, std::string_view binary, const std::string& options,
                              BuildSteps steps) {
  const cl::Program::Binaries binaries{{binary.begin(), binary.end()}};
  cl::Program program(device.context(), {device.handle()}, binaries);
  if (steps == BuildSteps::kCompileAndLink) return linked(device, program);
  program.build({device.handle()}, options.c_str());
  return program;
}

std::string binary_of(const cl::Program& program) {
  const auto binaries = program.getInfo<CL_PROGRAM_BINARIES>();
  if (binaries.size() != 1) return {};
  return {binaries[0].begin(), binaries[0].end()};
}

}  // namespace ocl
