// Joins the traces of work-items to wavefronts, as a GPU runs them, and counts their work.
//
// The lanes of a wavefront are consecutive work-items of a group. In each step the lanes whose next
// code has the lowest rank run it; the others wait. So lanes that took different branches run one
// after another, and together again where the branches meet.
#pragma once

#include <span>

#include "control_flow.h"

namespace gpu_model {

enum class Kind : uint8_t { kLoad, kStore, kAtomic, kCount };
constexpr size_t kKinds = static_cast<size_t>(Kind::kCount);
constexpr std::array<uint32_t, 3> kWidths = {16, 32, 64};
constexpr std::array<uint32_t, 3> kLines = {32, 64, 128};
constexpr uint32_t kSector = kLines[0];

struct Access {
  uint64_t address;
  uint32_t size;
  uint32_t slot;  // the instruction's place in its segment
  Op space;
  Kind kind;
};

// A run of a segment.
struct Step {
  uint32_t place;
  uint32_t end;  // the end of its accesses in Trace::accesses
};

// What a work-item did since the last barrier.
struct Trace {
  std::vector<Step> steps;
  std::vector<Access> accesses;
};

struct Traffic {
  uint64_t requests = 0;                        // requests of wavefronts
  uint64_t needed = 0;                          // distinct bytes of each request
  std::array<uint64_t, kLines.size()> lines{};  // distinct lines of 32, 64, 128 bytes

  void add(const Traffic& other);
};

// Counts of wavefronts of one width.
struct Counts {
  std::array<uint64_t, kOps> issued{}, lanes{};  // instructions, and active lanes of them
  uint64_t flops = 0;                            // operations of all lanes
  uint64_t steps = 0, diverged = 0;  // runs of segments; those that some unfinished lane waits for
  uint64_t waits = 0;                // runs of segments that load from global memory
  std::array<Traffic, kKinds> global;
  uint64_t local_requests = 0;
  uint64_t local_passes = 0;  // passes that the requests would take without bank conflicts
  uint64_t local_cycles = 0;  // cycles that they take with bank conflicts

  void add(const Counts& other);
};

// Numbers of sectors of global memory that requests touched.
struct Touched {
  std::vector<uint64_t> loaded, stored;
};

// `traces` of consecutive work-items, at most the width. Adds to the counts and, if there is one,
// to `touched`.
void count_wavefront(std::span<const Trace* const> traces, Places& places, Counts& counts,
                     Touched* touched);

}  // namespace gpu_model
