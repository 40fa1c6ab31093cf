// Analyses a program before it runs: the classes of its instructions, and an order of its code in
// which diverged lanes meet again as early as possible.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace llvm {
class Function;
class Instruction;
}  // namespace llvm

namespace gpu_model {

// Classes of instructions. kOpNames has the names that the log uses.
enum class Op : uint8_t {
  kFree,      // no instruction of a GPU: names of values, casts of pointers, calls that are inlined
  kFloat,     // a float or half operation; a multiply-add is one
  kDouble,    // the same for doubles
  kNative,    // an operation of the special unit: native_exp(), sqrt(), rsqrt()
  kMath,      // a function of several instructions: exp(), sin(), a division
  kInt,       // 32 bits or fewer
  kMultiply,  // 32 bits
  kDivide,    // 32 bits
  kLong,      // 64 bits
  kLongMultiply,
  kLongDivide,
  kAddress,  // base and variable index
  kControl,  // a conditional branch
  kBarrier,
  kGlobal,
  kLocal,
  kConstant,
  kPrivate,  // arrays that the compiler could not keep in registers
  kCount
};
constexpr size_t kOps = static_cast<size_t>(Op::kCount);
extern const std::array<const char*, kOps> kOpNames;

struct Instruction {
  Op op;
  uint32_t weight;  // operations of a work-item: the elements of a vector
  uint32_t flops;
};

// Instructions that run one after another: a basic block, or a part of one between calls of
// functions and barriers.
struct Segment {
  std::vector<Instruction> instructions;
  std::vector<const llvm::Instruction*> originals;  // the instructions in LLVM's program
  std::vector<std::pair<Op, uint32_t>> sums;        // the weights of each class
  uint32_t flops = 0;
  uint32_t order = 0;  // within its function: the lanes of the lowest order run first
  bool calls = false, returns = false;
};

// The segments of all functions that have run.
class ControlFlow {
 public:
  // The segment that begins with this instruction; nullptr if none does.
  const Segment* segment_at(const llvm::Instruction* first);

 private:
  void add(const llvm::Function& function);

  std::map<const llvm::Function*, bool> known_;
  std::vector<std::unique_ptr<Segment>> segments_;
  std::unordered_map<const llvm::Instruction*, const Segment*> by_first_;
};

// Places in the tree of calls: a segment, and the place that called its function.
class Places {
 public:
  static constexpr uint32_t kRoot = 0;

  Places() { places_.push_back({}); }
  uint32_t find(uint32_t caller, const Segment* segment);
  const Segment& segment(uint32_t place) const { return *places_[place].segment; }
  // Ranks of all places; of diverged lanes, those at the lowest rank run.
  const std::vector<uint32_t>& ranks();

 private:
  struct Place {
    const Segment* segment = nullptr;
    std::vector<uint32_t> path;  // the orders of the calling segments and its own
  };

  std::vector<Place> places_;
  std::map<std::pair<uint32_t, const Segment*>, uint32_t> known_;
  std::vector<uint32_t> ranks_;
};

}  // namespace gpu_model
