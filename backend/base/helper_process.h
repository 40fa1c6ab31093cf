// Runs one of our programs in a process of its own. It asks drivers something and answers with one
// line. The process isolates us from drivers, which start threads, print, crash and hang.
//
//   HelperProcess helper(folder / "count_devices", std::chrono::seconds(10));
//   std::optional<HelperAnswer> answer;
//   while (!(answer = helper.wait(std::chrono::milliseconds(100)))) ...;
//
// The answer comes through a pipe of its own. The program has empty standard streams, and a process
// group of its own, so that Ctrl-C ends the caller alone.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace ocl {

struct HelperAnswer {
  enum class Kind {
    kLine,        // text: the program's answer
    kEnded,       // the program has ended without an answer
    kTimedOut,    // the program was killed after its limit
    kNotStarted,  // text: why
  };
  Kind kind = Kind::kNotStarted;
  std::string text;
};

class HelperProcess {
 public:
  // The program gets the limit in seconds as its argument. It should answer in time even if a
  // driver hangs; a second later it is killed.
  HelperProcess(const std::filesystem::path& program, std::chrono::seconds limit) noexcept;
  ~HelperProcess();
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;

  // The answer; nullopt if there is none after this time. May be called again and again.
  std::optional<HelperAnswer> wait(std::chrono::milliseconds patience);

 private:
  HelperAnswer finish(HelperAnswer::Kind kind, std::string text) noexcept;

  int process_ = -1, pipe_ = -1;
  std::chrono::steady_clock::time_point end_;
  std::string received_;
  std::optional<HelperAnswer> answer_;
};

// Functions that the program in that process calls.
namespace helper {

// Closes inherited files except the standard streams and the pipe. Children do not inherit the
// pipe.
void begin() noexcept;

// Writes the answer and ends the process, without the destructors of drivers. May be called in a
// handler of a signal.
[[noreturn]] void answer(const char* line) noexcept;

// If the process still runs after the limit, or a driver crashes, the answer is `hung` or `crashed`
// and the driver's file: the first library in the main thread's backtrace that belongs neither to
// the system nor to OpenCL's loader.
void name_driver_that_fails(const char* hung, const char* crashed, int seconds) noexcept;

}  // namespace helper

}  // namespace ocl
