#include "group.h"

#include <algorithm>

namespace gpu_model {
namespace {

void keep_distinct(std::vector<uint64_t>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

}  // namespace

void GroupCounts::add(const GroupCounts& other) {
  for (size_t i = 0; i < widths.size(); ++i) widths[i].add(other.widths[i]);
  groups += other.groups;
  items += other.items;
  barriers += other.barriers;
  broken += other.broken;
  for (const auto& [instruction, range] : other.ranges) {
    const auto [entry, is_new] = ranges.try_emplace(instruction, range);
    entry->second.first = std::min(entry->second.first, range.first);
    entry->second.second = std::max(entry->second.second, range.second);
  }
  const auto append = [](std::vector<uint64_t>& to, const std::vector<uint64_t>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(touched.loaded, other.touched.loaded);
  append(touched.stored, other.touched.stored);
}

void Group::begin(size_t items) {
  counts_ = {};
  counts_.groups = 1;
  counts_.items = items;
  items_.assign(items, {});
}

void Group::access(size_t number, uint64_t address, uint32_t size, Kind kind, Op space) {
  items_[number].trace.accesses.push_back({address, size, 0, space, kind});
}

void Group::enter(Item& item, const llvm::Instruction* instruction) {
  counts_.broken += item.segment && item.index != item.segment->instructions.size();
  item.segment = flow_.segment_at(instruction);
  item.index = 0;
  if (!item.segment) {
    ++counts_.broken;
    return;
  }
  item.place =
      places_.find(item.callers.empty() ? Places::kRoot : item.callers.back(), item.segment);
  item.trace.steps.push_back({item.place, static_cast<uint32_t>(item.placed)});
}

void Group::instruction(size_t number, const llvm::Instruction* instruction) {
  Item& item = items_[number];
  ++instructions_;
  if (!item.segment || item.index == item.segment->instructions.size()) enter(item, instruction);
  if (!item.segment) return;
  const Instruction& known = item.segment->instructions[item.index];
  counts_.broken += item.segment->originals[item.index] != instruction;
  for (; item.placed < item.trace.accesses.size(); ++item.placed) {
    Access& access = item.trace.accesses[item.placed];
    access.slot = item.index;
    // Oclgrind has constant data in global memory.
    if (known.op == Op::kConstant) access.space = Op::kConstant;
    if (access.space != Op::kGlobal) continue;
    const auto [entry, is_new] =
        counts_.ranges.try_emplace(instruction, access.address, access.address + access.size);
    entry->second.first = std::min(entry->second.first, access.address);
    entry->second.second = std::max(entry->second.second, access.address + access.size);
  }
  item.trace.steps.back().end = static_cast<uint32_t>(item.placed);
  if (++item.index < item.segment->instructions.size()) return;
  if (item.segment->calls) item.callers.push_back(item.place);
  if (item.segment->returns && !item.callers.empty()) item.callers.pop_back();
}

void Group::count_traces() {
  for (size_t w = 0; w < kWidths.size(); ++w) {
    std::vector<const Trace*> traces;
    for (size_t first = 0; first < items_.size(); first += kWidths[w]) {
      traces.clear();
      for (size_t i = first; i < std::min(items_.size(), first + kWidths[w]); ++i) {
        traces.push_back(&items_[i].trace);
      }
      // The sectors of all wavefronts together are the same for each width.
      count_wavefront(traces, places_, counts_.widths[w], w == 0 ? &counts_.touched : nullptr);
    }
  }
  for (Item& item : items_) {
    counts_.broken += item.segment && item.index != item.segment->instructions.size();
    item.trace.steps.clear();
    item.trace.accesses.clear();
    item.placed = 0;
  }
  keep_distinct(counts_.touched.loaded);
  keep_distinct(counts_.touched.stored);
}

void Group::barrier() {
  ++counts_.barriers;
  count_traces();
}

GroupCounts Group::finish() {
  count_traces();
  return std::move(counts_);
}

}  // namespace gpu_model
