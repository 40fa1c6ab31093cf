#include "wavefronts.h"

#include <algorithm>

namespace gpu_model {
namespace {

constexpr uint32_t kBanks = 32, kBankBytes = 4;

struct Request {
  std::vector<Access> accesses;  // accesses of the lanes that take part
  std::vector<uint32_t> lanes;
};

// Sorts and joins the accesses to ranges of bytes without gaps or overlaps.
std::vector<std::pair<uint64_t, uint64_t>> ranges_of(const std::vector<Access>& accesses) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const Access& a : accesses) ranges.emplace_back(a.address, a.address + a.size);
  if (!std::is_sorted(ranges.begin(), ranges.end())) std::sort(ranges.begin(), ranges.end());
  size_t last = 0;
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first <= ranges[last].second) {
      ranges[last].second = std::max(ranges[last].second, ranges[i].second);
    } else {
      ranges[++last] = ranges[i];
    }
  }
  ranges.resize(last + 1);
  return ranges;
}

void count_global(const Request& request, Counts& counts, Touched* touched) {
  const Kind kind = request.accesses.front().kind;
  Traffic& traffic = counts.global[static_cast<size_t>(kind)];
  ++traffic.requests;
  const auto ranges = ranges_of(request.accesses);
  for (const auto& [begin, end] : ranges) traffic.needed += end - begin;
  for (size_t i = 0; i < kLines.size(); ++i) {
    uint64_t next = 0;  // lines below are counted
    for (const auto& [begin, end] : ranges) {
      const uint64_t first = std::max(next, begin / kLines[i]), last = (end - 1) / kLines[i];
      if (last < first) continue;
      traffic.lines[i] += last + 1 - first;
      next = last + 1;
      if (!touched || kLines[i] != kSector) continue;
      for (uint64_t sector = first; sector <= last; ++sector) {
        if (kind != Kind::kStore) touched->loaded.push_back(sector);
        if (kind != Kind::kLoad) touched->stored.push_back(sector);
      }
    }
  }
}

// 32 banks of 4 bytes. A pass serves lanes that read 128 bytes in all: 32 lanes of 4 bytes or
// fewer, 16 of 8 bytes, 8 of 16. It takes as many cycles as the busiest bank has words; lanes that
// read one word share it, and atomic operations share nothing.
void count_local(const Request& request, Counts& counts) {
  ++counts.local_requests;
  const uint32_t size = std::max(request.accesses.front().size, kBankBytes);
  const uint32_t lanes_of_pass = std::max(1u, kBanks * kBankBytes / size);
  std::array<std::vector<uint64_t>, kBanks> words;
  for (size_t i = 0; i < request.accesses.size();) {
    const uint32_t pass = request.lanes[i] / lanes_of_pass;
    for (auto& bank : words) bank.clear();
    for (; i < request.accesses.size() && request.lanes[i] / lanes_of_pass == pass; ++i) {
      const Access& a = request.accesses[i];
      const uint64_t last = (a.address + a.size - 1) / kBankBytes;
      for (uint64_t word = a.address / kBankBytes; word <= last; ++word) {
        auto& bank = words[word % kBanks];
        const bool shared = a.kind != Kind::kAtomic;
        if (!shared || std::find(bank.begin(), bank.end(), word) == bank.end()) {
          bank.push_back(word);
        }
      }
    }
    size_t busiest = 0;
    for (const auto& bank : words) busiest = std::max(busiest, bank.size());
    counts.local_cycles += busiest;
    // An access of more than 128 bytes takes several passes at best.
    counts.local_passes += std::max(1u, size / (kBanks * kBankBytes));
  }
}

void count_request(const Request& request, Counts& counts, Touched* touched) {
  switch (request.accesses.front().space) {
    case Op::kGlobal:
      return count_global(request, counts, touched);
    case Op::kLocal:
      return count_local(request, counts);
    default:
      return;  // counted as instructions
  }
}

class Wavefront {
 public:
  Wavefront(std::span<const Trace* const> traces, Places& places, Counts& counts, Touched* touched)
      : traces_(traces),
        places_(places),
        ranks_(places.ranks()),
        counts_(counts),
        touched_(touched),
        step_(traces.size(), 0),
        access_(traces.size(), 0) {}

  void run() {
    while (choose()) {
      count_instructions();
      count_accesses();
      for (const uint32_t lane : active_) ++step_[lane];
    }
  }

 private:
  // Finds the lanes that run next; false: all have finished.
  bool choose() {
    uint32_t least = UINT32_MAX;
    size_t unfinished = 0;
    active_.clear();
    for (uint32_t lane = 0; lane < traces_.size(); ++lane) {
      if (step_[lane] == traces_[lane]->steps.size()) continue;
      ++unfinished;
      const uint32_t rank = ranks_[traces_[lane]->steps[step_[lane]].place];
      if (rank > least) continue;
      if (rank < least) active_.clear();
      least = rank;
      active_.push_back(lane);
    }
    if (active_.empty()) return false;
    ++counts_.steps;
    counts_.diverged += active_.size() < unfinished;
    return true;
  }

  void count_instructions() {
    const uint32_t lane = active_.front();
    const Segment& segment = places_.segment(traces_[lane]->steps[step_[lane]].place);
    for (const auto& [op, weight] : segment.sums) {
      counts_.issued[static_cast<size_t>(op)] += weight;
      counts_.lanes[static_cast<size_t>(op)] += weight * active_.size();
    }
    counts_.flops += segment.flops * active_.size();
  }

  // The n-th accesses of one instruction are a request.
  void count_accesses() {
    bool waits = false;
    while (true) {
      uint32_t slot = UINT32_MAX;
      for (const uint32_t lane : active_) {
        if (const Access* access = next(lane)) slot = std::min(slot, access->slot);
      }
      if (slot == UINT32_MAX) break;
      request_.accesses.clear();
      request_.lanes.clear();
      for (const uint32_t lane : active_) {
        const Access* access = next(lane);
        if (!access || access->slot != slot) continue;
        request_.accesses.push_back(*access);
        request_.lanes.push_back(lane);
        ++access_[lane];
      }
      const Access& first = request_.accesses.front();
      waits |= first.space == Op::kGlobal && first.kind != Kind::kStore;
      count_request(request_, counts_, touched_);
    }
    counts_.waits += waits;
  }

  const Access* next(uint32_t lane) const {
    const Trace& trace = *traces_[lane];
    return access_[lane] < trace.steps[step_[lane]].end ? &trace.accesses[access_[lane]] : nullptr;
  }

  const std::span<const Trace* const> traces_;
  Places& places_;
  const std::vector<uint32_t>& ranks_;
  Counts& counts_;
  Touched* const touched_;
  std::vector<uint32_t> step_, access_, active_;
  Request request_;
};

}  // namespace

void Traffic::add(const Traffic& other) {
  requests += other.requests;
  needed += other.needed;
  for (size_t i = 0; i < lines.size(); ++i) lines[i] += other.lines[i];
}

void Counts::add(const Counts& other) {
  for (size_t i = 0; i < kOps; ++i) {
    issued[i] += other.issued[i];
    lanes[i] += other.lanes[i];
  }
  flops += other.flops;
  steps += other.steps;
  diverged += other.diverged;
  waits += other.waits;
  for (size_t i = 0; i < kKinds; ++i) global[i].add(other.global[i]);
  local_requests += other.local_requests;
  local_passes += other.local_passes;
  local_cycles += other.local_cycles;
}

void count_wavefront(std::span<const Trace* const> traces, Places& places, Counts& counts,
                     Touched* touched) {
  Wavefront(traces, places, counts, touched).run();
}

}  // namespace gpu_model
