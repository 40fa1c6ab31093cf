// Fields of a line. Counts are of the whole launch.
//
//   launch, kernel, program (the CRC-32 of its source), global, local, groups, local_bytes
//   same_as      the number of the line that has the counts, if the launch did the same
//   recorded     groups that have run
//   items        work-items
//   barriers     barriers of all groups
//   broken       defects of the record: 0
//   regions      connected ranges of global memory: [bytes of the range, bytes loaded, bytes
//                stored], in sectors of 32 bytes, each sector once for each group that touches it
//   widths       for each number of lanes of a wavefront:
//     waves      wavefronts
//     issued     instructions of wavefronts, by class
//     lanes      active lanes of these instructions
//     flops      floating-point operations of all lanes
//     steps      runs of code without branches; diverged: those that other lanes wait for; waits:
//                those that load from global memory
//     load, store, atomic      of global memory: [requests of wavefronts, distinct bytes of each
//                request, distinct lines of 32, of 64, of 128 bytes]
//     local      [requests, passes without bank conflicts, cycles with them]
#include "log.h"

#include <llvm/IR/Function.h>
#include <oclgrind/Kernel.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

namespace gpu_model {
namespace {

constexpr const char* kKindNames[kKinds] = {"load", "store", "atomic"};
constexpr size_t kAlignment = 256;

// The sum over all groups of a launch, extrapolated from the groups that have run.
class Whole {
 public:
  Whole(size_t groups, const GroupCounts& ends, const GroupCounts& middle) {
    of_ends_ = 1;
    if (middle.groups) {
      of_middle_ = static_cast<double>(groups - ends.groups) / middle.groups;
    } else if (ends.groups) {
      of_ends_ = static_cast<double>(groups) / ends.groups;
    }
  }

  double operator()(uint64_t ends, uint64_t middle) const {
    return std::round(of_ends_ * ends + of_middle_ * middle);
  }

 private:
  double of_ends_ = 0, of_middle_ = 0;
};

template <class Sizes>
std::string list(const Sizes& sizes) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(0);
  out << "[";
  bool first = true;
  for (const auto& size : sizes) out << (std::exchange(first, false) ? "" : ",") << size;
  out << "]";
  return out.str();
}

void write_traffic(std::ostream& out, const Whole& whole, const Traffic& ends,
                   const Traffic& middle) {
  std::vector<double> numbers = {whole(ends.requests, middle.requests),
                                 whole(ends.needed, middle.needed)};
  for (size_t i = 0; i < kLines.size(); ++i) {
    numbers.push_back(whole(ends.lines[i], middle.lines[i]));
  }
  out << list(numbers);
}

void write_width(std::ostream& out, const Whole& whole, const Counts& ends, const Counts& middle) {
  const auto classes = [&](const char* name, const auto& a, const auto& b) {
    out << "\"" << name << "\":{";
    bool first = true;
    for (size_t op = 0; op < kOps; ++op) {
      if (a[op] + b[op] == 0 || static_cast<Op>(op) == Op::kFree) continue;
      out << (std::exchange(first, false) ? "" : ",") << "\"" << kOpNames[op]
          << "\":" << whole(a[op], b[op]);
    }
    out << "},";
  };
  classes("issued", ends.issued, middle.issued);
  classes("lanes", ends.lanes, middle.lanes);
  out << "\"flops\":" << whole(ends.flops, middle.flops)
      << ",\"steps\":" << whole(ends.steps, middle.steps)
      << ",\"diverged\":" << whole(ends.diverged, middle.diverged)
      << ",\"waits\":" << whole(ends.waits, middle.waits);
  for (size_t kind = 0; kind < kKinds; ++kind) {
    out << ",\"" << kKindNames[kind] << "\":";
    write_traffic(out, whole, ends.global[kind], middle.global[kind]);
  }
  const std::vector<double> local = {whole(ends.local_requests, middle.local_requests),
                                     whole(ends.local_passes, middle.local_passes),
                                     whole(ends.local_cycles, middle.local_cycles)};
  out << ",\"local\":" << list(local);
}

using Range = std::pair<uint64_t, uint64_t>;

// The ranges of instructions, joined where they overlap.
std::vector<Range> joined(const GroupCounts& ends, const GroupCounts& middle) {
  GroupCounts both;
  both.ranges = ends.ranges;
  GroupCounts more;
  more.ranges = middle.ranges;
  both.add(more);
  std::vector<Range> ranges;
  for (const auto& [instruction, range] : both.ranges) ranges.push_back(range);
  std::sort(ranges.begin(), ranges.end());
  std::vector<Range> result;
  for (const Range& range : ranges) {
    if (!result.empty() && range.first < result.back().second) {
      result.back().second = std::max(result.back().second, range.second);
    } else {
      result.push_back(range);
    }
  }
  return result;
}

// Counts the sectors of each range, from the sector in which the range begins.
std::vector<uint64_t> sectors_of(const std::vector<Range>& ranges,
                                 const std::vector<uint64_t>& sectors) {
  std::vector<uint64_t> counts(ranges.size());
  for (const uint64_t sector : sectors) {
    const auto after = std::upper_bound(
        ranges.begin(), ranges.end(), (sector + 1) * kSector - 1,
        [](uint64_t last_byte, const Range& range) { return last_byte < range.first; });
    if (after != ranges.begin()) ++counts[after - ranges.begin() - 1];
  }
  return counts;
}

void write_regions(std::ostream& out, const Whole& whole, const GroupCounts& ends,
                   const GroupCounts& middle) {
  const std::vector<Range> ranges = joined(ends, middle);
  const auto loaded = sectors_of(ranges, ends.touched.loaded),
             loaded_middle = sectors_of(ranges, middle.touched.loaded),
             stored = sectors_of(ranges, ends.touched.stored),
             stored_middle = sectors_of(ranges, middle.touched.stored);
  std::vector<std::string> rows;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const std::vector<double> row = {static_cast<double>(ranges[i].second - ranges[i].first),
                                     kSector * whole(loaded[i], loaded_middle[i]),
                                     kSector * whole(stored[i], stored_middle[i])};
    rows.push_back(list(row));
  }
  out << list(rows);
}

}  // namespace

std::string signature(const Launch& launch, const oclgrind::Kernel& kernel) {
  std::ostringstream out;
  out << launch.kernel << ' ' << launch.program << list(launch.global) << list(launch.local);
  const std::map<const llvm::Value*, oclgrind::TypedValue> values(kernel.values_begin(),
                                                                  kernel.values_end());
  bool after_pointer = false;  // torch-ocl's tensors are a buffer and a byte offset
  for (const llvm::Argument& argument : kernel.getFunction()->args()) {
    const auto found = values.find(&argument);
    if (found == values.end()) continue;
    const oclgrind::TypedValue& value = found->second;
    const size_t bytes = static_cast<size_t>(value.size) * value.num;
    const llvm::Type* type = argument.getType();
    const bool is_pointer = type->isPointerTy() && !argument.hasByValAttr() && bytes == 8;
    out << ' ';
    if (is_pointer || (after_pointer && bytes == 8)) {
      out << value.getUInt() % kAlignment << (value.getUInt() == 0 && is_pointer ? "null" : "");
    } else if (value.data) {  // local memory has no data, only a size
      for (size_t i = 0; i < bytes; ++i) out << std::hex << +value.data[i] << std::dec << '.';
    } else {
      out << bytes;
    }
    after_pointer = is_pointer;
  }
  return out.str();
}

bool Log::write(const Launch& launch, const GroupCounts& ends, const GroupCounts& middle) {
  const size_t number = next_++;
  file_ << std::fixed << std::setprecision(0);
  file_ << "{\"launch\":" << number << ",\"kernel\":\"" << launch.kernel
        << "\",\"program\":" << launch.program << ",\"global\":" << list(launch.global)
        << ",\"local\":" << list(launch.local) << ",\"groups\":" << launch.groups
        << ",\"local_bytes\":" << launch.local_bytes;
  if (launch.same_as) {
    file_ << ",\"same_as\":" << *launch.same_as << "}" << std::endl;
    return file_.good();
  }
  const Whole whole(launch.groups, ends, middle);
  file_ << ",\"recorded\":" << ends.groups + middle.groups
        << ",\"items\":" << launch.global[0] * launch.global[1] * launch.global[2]
        << ",\"barriers\":" << whole(ends.barriers, middle.barriers)
        << ",\"broken\":" << ends.broken + middle.broken << ",\"regions\":";
  write_regions(file_, whole, ends, middle);
  file_ << ",\"widths\":{";
  for (size_t w = 0; w < kWidths.size(); ++w) {
    const size_t items = launch.local[0] * launch.local[1] * launch.local[2];
    file_ << (w ? "," : "") << "\"" << kWidths[w]
          << "\":{\"waves\":" << launch.groups * ((items + kWidths[w] - 1) / kWidths[w]) << ",";
    write_width(file_, whole, ends.widths[w], middle.widths[w]);
    file_ << "}";
  }
  file_ << "}}" << std::endl;
  return file_.good();
}

}  // namespace gpu_model
