#include "control_flow.h"

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "classes.h"

namespace gpu_model {
namespace {

using Block = llvm::BasicBlock;
using Loop = llvm::Loop;

// Orders blocks such that a loop's blocks are adjacent, and each block comes after its predecessors
// apart from back edges. So lanes that left a loop wait after it for those that did not.
class Orderer {
 public:
  explicit Orderer(const llvm::LoopInfo& loops) : loops_(loops) {}

  // Appends the blocks of a loop (nullptr: of the function) that are reached from `first`.
  void append(const Loop* loop, const Block* first, std::vector<const Block*>& blocks) {
    std::vector<const Block*> finished;  // a block for each item: an own block, or a loop's header
    std::set<const Block*> seen;
    visit(loop, item(loop, first), finished, seen);
    std::reverse(finished.begin(), finished.end());
    for (const Block* block : finished) {
      const Loop* inner = child(loop, block);
      inner ? append(inner, inner->getHeader(), blocks) : blocks.push_back(block);
    }
  }

 private:
  // The loop directly within `loop` that has the block; nullptr: none.
  const Loop* child(const Loop* loop, const Block* block) const {
    const Loop* found = nullptr;
    for (const Loop* l = loops_.getLoopFor(block); l != loop; l = l->getParentLoop()) found = l;
    return found;
  }

  const Block* item(const Loop* loop, const Block* block) const {
    const Loop* inner = child(loop, block);
    return inner ? inner->getHeader() : block;
  }

  void visit(const Loop* loop, const Block* block, std::vector<const Block*>& finished,
             std::set<const Block*>& seen) {
    if (!seen.insert(block).second) return;
    const Loop* inner = child(loop, block);
    const auto follow = [&](const Block* from) {
      for (const Block* to : llvm::successors(from)) {
        if (inner && inner->contains(to)) continue;
        if (loop && (!loop->contains(to) || to == loop->getHeader())) continue;
        visit(loop, item(loop, to), finished, seen);
      }
    };
    if (inner) {
      for (const Block* each : inner->blocks()) follow(each);
    } else {
      follow(block);
    }
    finished.push_back(block);
  }

  const llvm::LoopInfo& loops_;
};

std::vector<const Block*> ordered_blocks(const llvm::Function& function) {
  llvm::DominatorTree tree(const_cast<llvm::Function&>(function));
  const llvm::LoopInfo loops(tree);
  std::vector<const Block*> blocks;
  Orderer(loops).append(nullptr, &function.getEntryBlock(), blocks);
  return blocks;
}

void finish(Segment& segment) {
  std::array<uint32_t, kOps> sums{};
  for (const Instruction& i : segment.instructions) {
    sums[static_cast<size_t>(i.op)] += i.weight;
    segment.flops += i.flops;
  }
  for (size_t op = 0; op < kOps; ++op) {
    if (sums[op]) segment.sums.emplace_back(static_cast<Op>(op), sums[op]);
  }
}

}  // namespace

void ControlFlow::add(const llvm::Function& function) {
  uint32_t order = 0;
  for (const Block* block : ordered_blocks(function)) {
    Segment* segment = nullptr;
    for (const llvm::Instruction& instruction : *block) {
      if (!segment) {
        segment = segments_.emplace_back(std::make_unique<Segment>()).get();
        segment->order = order++;
        by_first_[&instruction] = segment;
      }
      segment->instructions.push_back(classify(instruction));
      segment->originals.push_back(&instruction);
      const auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
      const llvm::Function* called = call ? call->getCalledFunction() : nullptr;
      segment->calls = called && !called->isDeclaration();
      segment->returns = llvm::isa<llvm::ReturnInst>(instruction);
      if (segment->calls || (call && is_barrier(*call)) || instruction.isTerminator()) {
        finish(*segment);
        segment = nullptr;
      }
    }
  }
}

const Segment* ControlFlow::segment_at(const llvm::Instruction* first) {
  const llvm::Function* function = first->getFunction();
  if (!std::exchange(known_[function], true)) add(*function);
  const auto found = by_first_.find(first);
  return found == by_first_.end() ? nullptr : found->second;
}

uint32_t Places::find(uint32_t caller, const Segment* segment) {
  const auto [entry, is_new] = known_.try_emplace({caller, segment}, places_.size());
  if (is_new) {
    Place place{segment, places_[caller].path};
    place.path.push_back(segment->order);
    places_.push_back(std::move(place));
  }
  return entry->second;
}

const std::vector<uint32_t>& Places::ranks() {
  if (ranks_.size() == places_.size()) return ranks_;
  std::vector<uint32_t> sorted(places_.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::sort(sorted.begin(), sorted.end(),
            [&](uint32_t a, uint32_t b) { return places_[a].path < places_[b].path; });
  ranks_.resize(places_.size());
  for (uint32_t rank = 0; rank < sorted.size(); ++rank) ranks_[sorted[rank]] = rank;
  return ranks_;
}

}  // namespace gpu_model
