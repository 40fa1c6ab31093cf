// The policy of the caching allocator, without any OpenCL: which cached block serves a request,
// when blocks are split and merged, which segments can be released, and the statistics.
//
// A segment is one device buffer; blocks partition it. Blocks belong to a stream: a freed block is
// handed out again to its own stream at once, because the queue orders the two uses. Blocks of a
// graph's pool belong to a stream of the pool (pool_stream), so that nothing else gets them.
// Sizes follow CUDA's caching allocator, except that medium segments have 32 MiB, not 20: training
// ResNet-18 then reserves 1.1 times its peak use, not 1.3 times. PYTORCH_ALLOC_CONF sets
// max_split_size_mb, max_non_split_rounding_mb and roundup_power2_divisions (docs/memory.md).
// Not thread-safe: the allocator holds a lock.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/FunctionRef.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

namespace ocl {

struct Segment;

inline constexpr size_t kMinBlock = 512;                    // blocks are multiples of this
inline constexpr size_t kSmallSize = size_t{1} << 20;       // larger requests: large pool
inline constexpr size_t kSmallSegment = size_t{2} << 20;    // size of the small pool's segments
inline constexpr size_t kMediumSegment = size_t{32} << 20;  // serves requests of up to 16 MiB
inline constexpr size_t kMinLarge = size_t{16} << 20;       // larger requests get a segment each,
inline constexpr size_t kRoundLarge = size_t{2} << 20;      // sizes of these are rounded up to this

// One number for a stream (0 to 2^32 - 1) and a pool; pool 0 means no pool.
constexpr int64_t pool_stream(uint64_t pool, int64_t stream) {
  return static_cast<int64_t>(pool << 32) | stream;
}
constexpr uint64_t pool_of(int64_t pool_stream) { return static_cast<uint64_t>(pool_stream) >> 32; }
constexpr int64_t plain_stream(int64_t pool_stream) { return pool_stream & 0xFFFFFFFF; }

struct Block {
  Segment* segment = nullptr;
  uint64_t segment_number = 0;  // in the order in which segments were added
  size_t offset = 0;            // bytes from the start of the segment
  size_t size = 0;              // bytes
  size_t requested = 0;         // bytes that the caller asked for
  int64_t stream = 0;           // pool_stream()
  bool small = false;
  bool allocated = false;
  Block* previous = nullptr;  // adjacent blocks of the segment
  Block* next = nullptr;
  std::vector<int64_t> other_streams;           // record_stream()
  int pending_events = 0;                       // events that the freed block waits for
  std::shared_ptr<c10::GatheredContext> stack;  // of its allocation, for the memory history
  uint64_t thread = 0, allocation = 0;          // FaultThread's id(), allocations()
};

class BufferCache {
 public:
  using Stats = c10::CachingDeviceAllocator::DeviceStats;

  BufferCache() = default;
  BufferCache(const BufferCache&) = delete;
  ~BufferCache();

  static size_t round_size(size_t bytes);
  // Bytes of the segment to create for a request of this (rounded) size.
  static size_t segment_size(size_t rounded);

  // The smallest cached block that fits, split if much larger; nullptr when there is none.
  Block* take(size_t requested, int64_t stream);
  // Adds a new segment, and takes the request from it.
  Block* add_segment(Segment* segment, size_t segment_bytes, size_t requested, int64_t stream);

  // Call when the user frees the block. It stays active until put_back(), which follows when the
  // events of other streams are over.
  void mark_freed(Block* block);
  // Makes the block available, merged with adjacent free blocks.
  void put_back(Block* block);

  // Removes the segments without allocated blocks, and returns them for release. It leaves segments
  // of pools for which `kept` returns true.
  std::vector<Segment*> take_unused_segments(c10::function_ref<bool(uint64_t pool)> kept =
                                                 [](uint64_t) { return false; });

  size_t reserved() const { return reserved_; }
  Stats& stats() { return stats_; }
  void reset_accumulated_stats();
  void reset_peak_stats();

  // The block at an offset of a segment, or nullptr. Searches all segments.
  Block* find(const Segment* segment, size_t offset) const;
  // First blocks of all segments, for snapshots and tests.
  std::vector<const Block*> segments() const;

 private:
  // The key of a search, which sorts before every block of its stream and size.
  struct Request {
    int64_t stream;
    size_t size;
  };
  struct BySize {
    using is_transparent = void;
    bool operator()(const Block* block, const Request& request) const {
      if (block->stream != request.stream) return block->stream < request.stream;
      return block->size < request.size;
    }
    bool operator()(const Block* a, const Block* b) const {
      if (a->stream != b->stream) return a->stream < b->stream;
      if (a->size != b->size) return a->size < b->size;
      // Compares places, not addresses of Blocks: the choice must not depend on the host's heap.
      if (a->segment_number != b->segment_number) return a->segment_number < b->segment_number;
      return a->offset < b->offset;
    }
  };
  using Pool = std::set<Block*, BySize>;

  Pool& pool(const Block* block) { return block->small ? small_ : large_; }
  bool fits(const Block* block, size_t rounded) const;
  Block* allocate_from(Block* block, size_t requested, size_t rounded);
  void absorb(Block* block, Block* neighbour);
  void count(c10::CachingAllocator::StatArray& stat, bool small, int64_t amount);
  // Whether the (free) block is only a part of its segment.
  static bool is_inactive_split(const Block* block) { return block->previous || block->next; }
  void count_inactive(const Block* block, int sign);

  Pool small_, large_;
  std::set<Block*> first_blocks_;
  size_t reserved_ = 0;
  uint64_t segments_added_ = 0;
  Stats stats_;
};

}  // namespace ocl
