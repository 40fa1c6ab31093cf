// Programs are specialised by a prelude of #defines in front of a kernel file, built once per
// device, and kept as a binary in a folder of the user.
//
// Key: device, driver version, the host's instructions for a CPU device, build options, and the
// complete specialised source. File: OCL_CACHE_DIR (default ~/.cache/torch_ocl) / <sha1 of the
// key>.bin; it holds the whole key and a checksum, so a collision, a new driver or a damaged file
// means building again. Concurrency: files are written under another name and renamed; the last
// writer wins. A binary, or a compiled object (program_build.h), is stored after the program's
// first launches: drivers may compile at launch.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backend/device/device.h"

namespace ocl {

// The #defines of a specialisation, in order.
class Defines {
 public:
  Defines& set(std::string_view name, std::string_view value);
  Defines& set(std::string_view name, int64_t value);
  Defines& append(const Defines& others);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

struct Program {
  cl::Program handle;
  std::string label;  // file and defines, for messages
};

// The program of `file` (a name without a folder) with these defines; built or loaded once.
const Program& program(Device& device, const std::string& file, const Defines& defines);

// Call after the first launch of a kernel of the program, or if no kernel of it will be launched.
void store_later(const Program& program);
// Writes the binaries of the programs since the last call; called at synchronisation.
void store_programs() noexcept;

struct ProgramCacheStats {
  uint64_t built = 0;   // programs built from source
  uint64_t loaded = 0;  // programs made from a stored binary
};
ProgramCacheStats program_cache_stats();

// Says to users at a terminal why they wait.
class BuildProgress {
 public:
  // Call after each build. A line to print when all builds together have taken 2 s, 4 s, 8 s and so
  // on; else an empty string.
  std::string add(double seconds);

 private:
  double seconds_ = 0, next_ = 2;
  uint64_t programs_ = 0;
};

// Calls a function in another thread if the object lives longer than `patience`.
class SlowNotice {
 public:
  SlowNotice(std::chrono::milliseconds patience, std::function<void()> say);
  ~SlowNotice();
  SlowNotice(const SlowNotice&) = delete;

 private:
  std::promise<void> over_;
  std::thread thread_;
};

// The text of a kernel file with its #includes expanded, for the compiler. Files come from
// OCL_KERNEL_DIR if that is set, else from the sources embedded at build time.
std::string kernel_source(const std::string& file);

// The embedded sources: name -> text. Defined by a generated file of kernels/.
const std::map<std::string, std::string_view>& embedded_sources();
void set_embedded_sources(const std::map<std::string, std::string_view>* sources);

}  // namespace ocl
