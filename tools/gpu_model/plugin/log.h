// The log of launches: JSON, a line for each.
#pragma once

#include <fstream>
#include <optional>
#include <string>

#include "group.h"

namespace oclgrind {
class Kernel;
}  // namespace oclgrind

namespace gpu_model {

struct Launch {
  std::string kernel;
  std::array<size_t, 3> global{}, local{};
  size_t groups = 0;
  size_t local_bytes = 0;
  uint32_t program = 0;           // the CRC-32 of its source
  std::string signature;          // equal for launches that do the same
  std::optional<size_t> same_as;  // the number of the launch that was recorded for it
};

// Made of the kernel's name, program, grid and arguments. Of addresses, only the alignment counts.
std::string signature(const Launch& launch, const oclgrind::Kernel& kernel);

class Log {
 public:
  explicit Log(const std::string& path) : file_(path) {}

  size_t next() const { return next_; }
  // `ends`: the sum of the launch's first and last group; `middle`: the sum of the others that have
  // run. Counts of other groups are extrapolated from these. Returns false if writing fails.
  bool write(const Launch& launch, const GroupCounts& ends, const GroupCounts& middle);

 private:
  std::ofstream file_;
  size_t next_ = 0;
};

}  // namespace gpu_model
