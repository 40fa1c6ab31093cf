// Records the work-items of one work-group, from Oclgrind's calls.
#pragma once

#include "wavefronts.h"

namespace gpu_model {

// The counts of one group, or several, for each width of wavefronts.
struct GroupCounts {
  std::array<Counts, kWidths.size()> widths;
  uint64_t groups = 0, items = 0, barriers = 0;
  // Things that the recorder cannot handle: code that it lost track of, asynchronous copies.
  uint64_t broken = 0;
  // The range of addresses that each instruction touched, from which log.cpp makes regions.
  std::map<const void*, std::pair<uint64_t, uint64_t>> ranges;
  // A sector is listed once for each group that touches it.
  Touched touched;

  void add(const GroupCounts& other);
};

class Group {
 public:
  explicit Group(ControlFlow& flow, Places& places) : flow_(flow), places_(places) {}

  void begin(size_t items);
  // Call before the instruction() that makes the access. `item`: the number within the group, x
  // first.
  void access(size_t item, uint64_t address, uint32_t size, Kind kind, Op space);
  void instruction(size_t item, const llvm::Instruction* instruction);
  void barrier();
  void asynchronous_copy() { ++counts_.broken; }
  GroupCounts finish();
  uint64_t instructions() const { return instructions_; }

 private:
  struct Item {
    Trace trace;
    std::vector<uint32_t> callers;
    const Segment* segment = nullptr;
    uint32_t place = 0, index = 0;  // the next instruction of the segment
    size_t placed = 0;              // accesses that have a slot
  };

  void enter(Item& item, const llvm::Instruction* instruction);
  void count_traces();

  ControlFlow& flow_;
  Places& places_;
  std::vector<Item> items_;
  GroupCounts counts_;
  uint64_t instructions_ = 0;  // executed by all groups so far
};

}  // namespace gpu_model
