#include "backend/memory/buffer_cache.h"

#include <c10/core/AllocatorConfig.h>
#include <gtest/gtest.h>

#include <deque>

#include "backend/device/buffer_view.h"

namespace ocl {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

int64_t current(const c10::CachingAllocator::StatArray& stat) { return stat[0].current; }

struct BufferCacheTest : testing::Test {
  BufferCache cache;
  std::deque<Segment> segments;

  // Allocates as the allocator does.
  Block* allocate(size_t bytes, int64_t stream = 0) {
    if (Block* block = cache.take(bytes, stream)) return block;
    const size_t size = BufferCache::segment_size(BufferCache::round_size(bytes));
    return cache.add_segment(&segments.emplace_back(), size, bytes, stream);
  }
  void free(Block* block) {
    cache.mark_freed(block);
    cache.put_back(block);
  }
};

TEST_F(BufferCacheTest, RoundsSizes) {
  EXPECT_EQ(BufferCache::round_size(1), 512u);
  EXPECT_EQ(BufferCache::round_size(512), 512u);
  EXPECT_EQ(BufferCache::round_size(513), 1024u);
  EXPECT_EQ(BufferCache::segment_size(kMiB), 2 * kMiB);
  EXPECT_EQ(BufferCache::segment_size(kMiB + 512), 32 * kMiB);
  EXPECT_EQ(BufferCache::segment_size(16 * kMiB), 16 * kMiB);
  EXPECT_EQ(BufferCache::segment_size(17 * kMiB), 18 * kMiB);
}

TEST_F(BufferCacheTest, SmallRequestsShareASegment) {
  Block* a = allocate(100);
  Block* b = allocate(1000);
  EXPECT_EQ(a->segment, b->segment);
  EXPECT_EQ(a->offset, 0u);
  EXPECT_EQ(b->offset, 512u);
  EXPECT_EQ(b->size, 1024u);
  EXPECT_EQ(cache.reserved(), 2 * kMiB);
}

// Nobody else gets a pool's blocks, and its segments stay as long as it is said to be in use.
TEST_F(BufferCacheTest, PoolsAreApart) {
  constexpr int64_t kStream = 5, kOwner = pool_stream(3, kStream);
  static_assert(pool_of(kOwner) == 3 && plain_stream(kOwner) == kStream);
  static_assert(pool_stream(0, kStream) == kStream);
  free(allocate(512, kOwner));
  EXPECT_EQ(cache.take(512, kStream), nullptr);
  EXPECT_EQ(cache.take(512, pool_stream(4, kStream)), nullptr);
  EXPECT_TRUE(cache.take_unused_segments([](uint64_t pool) { return pool == 3; }).empty());
  EXPECT_NE(cache.take(512, kOwner), nullptr);
}

// The freed block is the only one of exactly this size, wherever the heap put its record.
TEST_F(BufferCacheTest, ExactFitIsReused) {
  for (const size_t bytes : {size_t{512}, 2 * kMiB, 20 * kMiB, 64 * kMiB}) {
    Block* block = allocate(bytes);
    Segment* segment = block->segment;
    const size_t offset = block->offset;
    allocate(512);  // keeps it from being merged away
    const size_t reserved = cache.reserved();
    free(block);
    Block* again = allocate(bytes);
    EXPECT_EQ(again->segment, segment) << bytes;
    EXPECT_EQ(again->offset, offset) << bytes;
    EXPECT_EQ(cache.reserved(), reserved) << bytes;
  }
}

TEST_F(BufferCacheTest, SmallestThatFitsIsTaken) {
  Block* large = allocate(64 * kMiB);
  Block* medium = allocate(24 * kMiB);
  Segment* expected = medium->segment;
  free(large);
  free(medium);
  EXPECT_EQ(allocate(22 * kMiB)->segment, expected);
}

// Whatever the heap: how well later requests fit must not differ from run to run.
TEST_F(BufferCacheTest, OldestOfEqualBlocksIsTaken) {
  std::vector<Block*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(allocate(24 * kMiB));
  std::vector<Segment*> expected;
  for (Block* block : blocks) expected.push_back(block->segment);
  for (const int i : {5, 0, 7, 2, 6, 1, 4, 3}) free(blocks[i]);
  for (Segment* segment : expected) EXPECT_EQ(allocate(24 * kMiB)->segment, segment);
}

// PYTORCH_ALLOC_CONF, set as torch reads it.
struct BufferCacheSettingsTest : BufferCacheTest {
  static void set(const std::string& text) { c10::CachingAllocator::setAllocatorSettings(text); }
  ~BufferCacheSettingsTest() override {
    set("max_split_size_mb:1000000000,max_non_split_rounding_mb:21,roundup_power2_divisions:1");
  }
};

TEST_F(BufferCacheSettingsTest, BlocksBeyondTheLimitAreNotSplit) {
  set("max_split_size_mb:64,max_non_split_rounding_mb:30");
  Block* oversize = allocate(100 * kMiB);
  Segment* segment = oversize->segment;
  EXPECT_EQ(cache.stats().oversize_allocations.current, 1);
  EXPECT_EQ(cache.stats().oversize_segments.current, 1);
  free(oversize);
  EXPECT_EQ(cache.stats().oversize_allocations.current, 0);
  EXPECT_NE(allocate(50 * kMiB)->segment, segment) << "below the limit";
  EXPECT_NE(allocate(68 * kMiB)->segment, segment) << "32 MiB would be wasted";
  Block* block = allocate(90 * kMiB);
  EXPECT_EQ(block->segment, segment);
  EXPECT_EQ(block->size, 100 * kMiB);
  EXPECT_EQ(cache.stats().oversize_allocations.current, 2);
  free(block);
  cache.take_unused_segments();
  EXPECT_EQ(cache.stats().oversize_segments.current, 1);
}

TEST_F(BufferCacheSettingsTest, SmallerBlocksAreSplitAsEver) {
  set("max_split_size_mb:64");
  Block* block = allocate(40 * kMiB);
  Segment* segment = block->segment;
  free(block);
  EXPECT_EQ(allocate(20 * kMiB)->segment, segment);
  EXPECT_EQ(allocate(18 * kMiB)->segment, segment);
}

TEST_F(BufferCacheSettingsTest, SizesAreRoundedToPartsOfPowersOfTwo) {
  set("roundup_power2_divisions:4");
  EXPECT_EQ(BufferCache::round_size(1200), 1536u) << "parts would be smaller than a block";
  EXPECT_EQ(BufferCache::round_size(kMiB + 1), kMiB + kMiB / 4);
  EXPECT_EQ(BufferCache::round_size(kMiB + kMiB / 4), kMiB + kMiB / 4);
  EXPECT_EQ(BufferCache::round_size(100 * kMiB), 112 * kMiB);
  EXPECT_EQ(BufferCache::round_size(127 * kMiB), 128 * kMiB);
  set("roundup_power2_divisions:[64:8,256:2,>:1]");
  EXPECT_EQ(BufferCache::round_size(33 * kMiB), 36 * kMiB);
  EXPECT_EQ(BufferCache::round_size(260 * kMiB), 384 * kMiB);
  EXPECT_EQ(BufferCache::round_size(1300 * kMiB), 1300 * kMiB);
}

TEST_F(BufferCacheTest, LargeRequestDoesNotTakeAMuchLargerBlockApart) {
  Block* huge = allocate(256 * kMiB);
  Segment* segment = huge->segment;
  free(huge);
  EXPECT_NE(allocate(18 * kMiB)->segment, segment);
  EXPECT_EQ(allocate(200 * kMiB)->segment, segment);
}

TEST_F(BufferCacheTest, NeighboursMerge) {
  Block* blocks[3];
  for (Block*& block : blocks) block = allocate(512 * 1024);
  allocate(512 * 1024);  // fills the segment
  Segment* segment = blocks[0]->segment;
  free(blocks[0]);
  free(blocks[2]);
  EXPECT_EQ(current(cache.stats().inactive_split), 2);
  free(blocks[1]);
  EXPECT_EQ(current(cache.stats().inactive_split), 1);
  EXPECT_EQ(current(cache.stats().inactive_split_bytes), 3 * 512 * 1024);
  Block* merged = allocate(kMiB);
  EXPECT_EQ(merged->segment, segment);
  EXPECT_EQ(merged->offset, 0u);
}

TEST_F(BufferCacheTest, BlocksWaitingForEventsDoNotMerge) {
  Block* a = allocate(kMiB);
  Block* b = allocate(kMiB);
  cache.mark_freed(b);  // but not put back
  free(a);
  EXPECT_EQ(cache.take(2 * kMiB, 0), nullptr);
  EXPECT_EQ(current(cache.stats().active), 1);
  EXPECT_EQ(current(cache.stats().allocation), 0);
  cache.put_back(b);
  EXPECT_EQ(cache.take_unused_segments().size(), 1u);
}

TEST_F(BufferCacheTest, StreamsAreKeptApart) {
  Block* block = allocate(30 * kMiB, 1);
  Segment* segment = block->segment;
  free(block);
  EXPECT_NE(allocate(30 * kMiB, 2)->segment, segment);
  EXPECT_NE(allocate(30 * kMiB, 0)->segment, segment);
  EXPECT_EQ(allocate(30 * kMiB, 1)->segment, segment);
}

TEST_F(BufferCacheTest, UnusedSegmentsGo) {
  Block* used = allocate(100);
  Block* unused = allocate(30 * kMiB);
  Segment* expected = unused->segment;
  free(unused);
  EXPECT_EQ(cache.take_unused_segments(), std::vector<Segment*>{expected});
  EXPECT_EQ(cache.reserved(), 2 * kMiB);
  EXPECT_EQ(cache.segments().size(), 1u);
  EXPECT_TRUE(cache.take_unused_segments().empty());
  free(used);
  EXPECT_EQ(cache.take_unused_segments().size(), 1u);
  EXPECT_EQ(cache.reserved(), 0u);
}

TEST_F(BufferCacheTest, Statistics) {
  Block* small = allocate(100);
  Block* large = allocate(3 * kMiB);
  const auto& stats = cache.stats();
  EXPECT_EQ(current(stats.allocated_bytes), static_cast<int64_t>(512 + 3 * kMiB));
  EXPECT_EQ(current(stats.requested_bytes), static_cast<int64_t>(100 + 3 * kMiB));
  EXPECT_EQ(current(stats.reserved_bytes), static_cast<int64_t>(34 * kMiB));
  EXPECT_EQ(stats.num_device_alloc, 2);
  free(small);
  free(large);
  EXPECT_EQ(current(stats.allocated_bytes), 0);
  EXPECT_EQ(current(stats.requested_bytes), 0);
  EXPECT_EQ(current(stats.active), 0);
  EXPECT_EQ(current(stats.inactive_split), 0);
  EXPECT_EQ(stats.allocated_bytes[0].peak, static_cast<int64_t>(512 + 3 * kMiB));
  cache.reset_peak_stats();
  EXPECT_EQ(stats.allocated_bytes[0].peak, 0);
  EXPECT_GT(stats.allocated_bytes[0].allocated, 0);
  cache.reset_accumulated_stats();
  EXPECT_EQ(stats.allocated_bytes[0].allocated, 0);
}

TEST_F(BufferCacheTest, FreeingTwiceIsAnError) {
  Block* block = allocate(100);
  free(block);
  EXPECT_THROW(cache.mark_freed(block), c10::Error);
}

}  // namespace
}  // namespace ocl
