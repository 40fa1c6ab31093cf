#include "backend/memory/buffer_cache.h"

#include <ATen/ceil_div.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/util/Exception.h>
#include <c10/util/llvmMathExtras.h>

#include <algorithm>

namespace ocl {

using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;

namespace {

// Whether max_split_size_mb forbids splitting the block. It does not apply to small blocks, which
// are tested first because that is faster.
bool is_oversize(const Block* block) {
  return !block->small && block->size >= Config::max_split_size();
}

}  // namespace

BufferCache::~BufferCache() {
  for (Block* first : first_blocks_) {
    for (Block* block = first; block;) delete std::exchange(block, block->next);
  }
}

size_t BufferCache::round_size(size_t bytes) {
  if (bytes <= kMinBlock) return kMinBlock;
  if (bytes <= 2 * kMinBlock) return 2 * kMinBlock;  // for any roundup_power2_divisions
  const size_t divisions = Config::roundup_power2_divisions(bytes);
  if (divisions > 1 && bytes > kMinBlock * divisions) {
    const size_t power = size_t{1} << c10::llvm::Log2_64(bytes);
    // Unless a division would be smaller than the smallest block.
    if (power / divisions >= kMinBlock) return at::round_up(bytes, power / divisions);
  }
  return at::round_up(bytes, kMinBlock);
}

size_t BufferCache::segment_size(size_t rounded) {
  if (rounded <= kSmallSize) return kSmallSegment;
  if (rounded < kMinLarge) return kMediumSegment;
  return at::round_up(rounded, kRoundLarge);
}

void BufferCache::count(StatArray& stat, bool small, int64_t amount) {
  const StatType pool = small ? StatType::SMALL_POOL : StatType::LARGE_POOL;
  for (const StatType type : {StatType::AGGREGATE, pool}) {
    auto& each = stat[static_cast<size_t>(type)];
    if (amount >= 0) {
      each.increase(amount);
    } else {
      each.decrease(-amount);
    }
  }
}

void BufferCache::count_inactive(const Block* block, int sign) {
  if (!is_inactive_split(block)) return;
  count(stats_.inactive_split, block->small, sign);
  count(stats_.inactive_split_bytes, block->small, sign * static_cast<int64_t>(block->size));
}

// Whether a request may take this block, which is large enough.
bool BufferCache::fits(const Block* block, size_t rounded) const {
  // A request large enough for its own segment must not split a much larger block.
  if (rounded >= kMinLarge && block->size >= 2 * rounded + kMediumSegment) return false;
  if (!is_oversize(block)) return true;
  // An oversize block is not split, so it serves only requests of about its size.
  return rounded >= Config::max_split_size() &&
         block->size - rounded < Config::max_non_split_rounding_size();
}

Block* BufferCache::take(size_t requested, int64_t stream) {
  const size_t rounded = round_size(requested);
  Pool& candidates = rounded <= kSmallSize ? small_ : large_;
  const auto it = candidates.lower_bound(Request{stream, rounded});
  if (it == candidates.end() || (*it)->stream != stream) return nullptr;
  Block* block = *it;
  if (!fits(block, rounded)) return nullptr;
  candidates.erase(it);
  count_inactive(block, -1);
  return allocate_from(block, requested, rounded);
}

Block* BufferCache::add_segment(Segment* segment, size_t segment_bytes, size_t requested,
                                int64_t stream) {
  const size_t rounded = std::min(round_size(requested), segment_bytes);
  auto* block = new Block;
  block->segment = segment;
  block->segment_number = segments_added_++;
  block->size = segment_bytes;
  block->stream = stream;
  block->small = rounded <= kSmallSize;
  first_blocks_.insert(block);
  reserved_ += segment_bytes;
  stats_.num_device_alloc += 1;
  count(stats_.segment, block->small, 1);
  count(stats_.reserved_bytes, block->small, static_cast<int64_t>(segment_bytes));
  if (is_oversize(block)) stats_.oversize_segments.increase(1);
  return allocate_from(block, requested, rounded);
}

Block* BufferCache::allocate_from(Block* block, size_t requested, size_t rounded) {
  const size_t remainder = block->size - rounded;
  const bool split = block->small ? remainder >= kMinBlock
                                  : remainder > kSmallSize && rounded < Config::max_split_size();
  if (split) {
    auto* rest = new Block;
    rest->segment = block->segment;
    rest->segment_number = block->segment_number;
    rest->offset = block->offset + rounded;
    rest->size = remainder;
    rest->stream = block->stream;
    rest->small = block->small;
    rest->previous = block;
    rest->next = block->next;
    if (rest->next) rest->next->previous = rest;
    block->next = rest;
    block->size = rounded;
    pool(rest).insert(rest);
    count_inactive(rest, +1);
  }
  block->allocated = true;
  block->requested = requested;
  count(stats_.allocation, block->small, 1);
  count(stats_.active, block->small, 1);
  count(stats_.allocated_bytes, block->small, static_cast<int64_t>(block->size));
  count(stats_.active_bytes, block->small, static_cast<int64_t>(block->size));
  count(stats_.requested_bytes, block->small, static_cast<int64_t>(requested));
  if (is_oversize(block)) stats_.oversize_allocations.increase(1);
  return block;
}

void BufferCache::mark_freed(Block* block) {
  TORCH_INTERNAL_ASSERT(block->allocated, "an ocl block was freed twice");
  block->allocated = false;
  count(stats_.allocation, block->small, -1);
  count(stats_.allocated_bytes, block->small, -static_cast<int64_t>(block->size));
  count(stats_.requested_bytes, block->small, -static_cast<int64_t>(block->requested));
  if (is_oversize(block)) stats_.oversize_allocations.decrease(1);
}

void BufferCache::absorb(Block* block, Block* neighbour) {
  const auto free = pool(neighbour).find(neighbour);
  if (free == pool(neighbour).end()) return;  // in use, or waiting for events
  count_inactive(neighbour, -1);
  pool(neighbour).erase(free);
  if (neighbour->offset < block->offset) {
    if (first_blocks_.erase(neighbour)) first_blocks_.insert(block);
    block->offset = neighbour->offset;
    block->previous = neighbour->previous;
    if (block->previous) block->previous->next = block;
  } else {
    block->next = neighbour->next;
    if (block->next) block->next->previous = block;
  }
  block->size += neighbour->size;
  delete neighbour;
}

void BufferCache::put_back(Block* block) {
  count(stats_.active, block->small, -1);
  count(stats_.active_bytes, block->small, -static_cast<int64_t>(block->size));
  block->requested = 0;
  block->other_streams.clear();
  block->stack.reset();
  if (block->previous) absorb(block, block->previous);
  if (block->next) absorb(block, block->next);
  pool(block).insert(block);
  count_inactive(block, +1);
}

std::vector<Segment*> BufferCache::take_unused_segments(
    c10::function_ref<bool(uint64_t pool)> kept) {
  std::vector<Segment*> unused;
  for (Pool* candidates : {&small_, &large_}) {
    for (auto it = candidates->begin(); it != candidates->end();) {
      Block* block = *it;
      if (is_inactive_split(block) || kept(pool_of(block->stream))) {
        ++it;
        continue;
      }
      it = candidates->erase(it);
      first_blocks_.erase(block);
      reserved_ -= block->size;
      stats_.num_device_free += 1;
      count(stats_.segment, block->small, -1);
      if (is_oversize(block)) stats_.oversize_segments.decrease(1);
      count(stats_.reserved_bytes, block->small, -static_cast<int64_t>(block->size));
      unused.push_back(block->segment);
      delete block;
    }
  }
  return unused;
}

Block* BufferCache::find(const Segment* segment, size_t offset) const {
  for (Block* block : first_blocks_) {
    if (block->segment != segment) continue;
    while (block && block->offset + block->size <= offset) block = block->next;
    return block;
  }
  return nullptr;
}

std::vector<const Block*> BufferCache::segments() const {
  return {first_blocks_.begin(), first_blocks_.end()};
}

namespace {

template <typename Reset>
void for_each_stat(BufferCache::Stats& stats, Reset&& reset) {
  for (StatArray* array : {&stats.allocation, &stats.segment, &stats.active, &stats.inactive_split,
                           &stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes,
                           &stats.inactive_split_bytes, &stats.requested_bytes}) {
    for (auto& stat : *array) reset(stat);
  }
  reset(stats.oversize_allocations);
  reset(stats.oversize_segments);
}

}  // namespace

void BufferCache::reset_accumulated_stats() {
  for_each_stat(stats_, [](auto& stat) { stat.reset_accumulated(); });
  stats_.num_alloc_retries = 0;
  stats_.num_ooms = 0;
  stats_.num_sync_all_streams = 0;
  stats_.num_device_alloc = 0;
  stats_.num_device_free = 0;
}

void BufferCache::reset_peak_stats() {
  for_each_stat(stats_, [](auto& stat) { stat.reset_peak(); });
}

}  // namespace ocl
