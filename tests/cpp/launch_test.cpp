// Kernels of specialisations and of threads.
#include "backend/launch/launch.h"

#include <barrier>
#include <cstring>
#include <memory>
#include <thread>

#include "backend/queue/first_launch.h"
#include "backend/queue/trace.h"
#include "tests/cpp/failing_calls.h"
#include "tests/cpp/support.h"

namespace ocl {
namespace {

constexpr const char* kKernel = R"(
__kernel void store(__global char *out, const ulong offset) {
  *(__global int *)(out + offset) = VALUE;
}
)";

// A kernel that stores a value. Of two numbers with one value, each has its own kernel.
struct Store {
  int number, value;

  KernelSource source(Device&) const { return {str("store_", value, ".cl"), "store", {}}; }
};

struct LaunchTest : test::DeviceTest {
  void SetUp() override {
    DeviceTest::SetUp();
    for (const int value : {1, 2, 3}) {
      folder.write(str("store_", value, ".cl"), str("#define VALUE ", value, kKernel));
    }
    memory = Allocator::instance().allocate(sizeof(int));
  }
  void TearDown() override {
    memory.clear();
    DeviceTest::TearDown();
  }
  const Kernel& find(int number, int value) { return find_kernel(here(), Store{number, value}); }
  int run(int number, int value) {
    set_current_device(GetParam());
    Stream& stream = current_stream(GetParam());
    launch(stream, find(number, value), {1}, {1}, resolve(memory.get()));
    return test::read_int(stream, resolve(memory.get()));
  }

  test::TemporaryFolder folder;
  test::Variable variable{"OCL_KERNEL_DIR", folder.path().string()};
  c10::DataPtr memory;
};

struct Tile {
  uint8_t rows;
  int32_t columns;
};

struct Wide {
  bool first;
  const char* name;
  KernelFamily family;
  Tile tile;
  std::array<int16_t, 2> steps;
};

// Each field is a part of the key: a new one needs no other line.
TEST(Specialisation, EachFieldChangesTheKey) {
  const Wide one{false, "name", KernelFamily::kCpu, {3, 4}, {5, 6}};
  const auto key = [](const Wide& wide) { return detail::key_of(wide); };
  std::vector<Wide> others(8, one);
  others[0].first = true;
  others[1].name = nullptr;
  others[2].family = KernelFamily::kGpu;
  others[3].tile.rows = 4;
  others[4].tile.columns = -4;
  others[5].steps[0] = 6;
  others[6].steps[1] = 5;
  std::swap(others[7].steps[0], others[7].steps[1]);
  for (const Wide& other : others) EXPECT_FALSE(key(other) == key(one));
  EXPECT_EQ(detail::count_fields<Wide>(), 5u);
}

TEST(Specialisation, BytesBetweenFieldsDoNotCount) {
  std::array<KernelKey, 2> keys;
  for (const int filling : {0, 1}) {
    alignas(Tile) std::array<char, sizeof(Tile)> memory;
    std::memset(memory.data(), filling, sizeof(memory));
    auto* const tile = new (memory.data()) Tile;
    tile->rows = 3;
    tile->columns = 4;
    keys[filling] = detail::key_of(*tile);
  }
  EXPECT_TRUE(keys[0] == keys[1]);
}

TEST(Specialisation, StructsOfEqualFieldsAreTwo) {
  struct Same {
    uint8_t rows;
    int32_t columns;
  };
  EXPECT_FALSE(detail::key_of(Tile{1, 2}) == detail::key_of(Same{1, 2}));
}

TEST_P(LaunchTest, EachSpecialisationHasItsKernel) {
  EXPECT_EQ(run(0, 1), 1);
  EXPECT_EQ(run(1, 2), 2);
  EXPECT_EQ(run(0, 1), 1);
}

TEST_P(LaunchTest, ThreadsLeaveTheirKernelsToTheNext) {
  const auto in_thread = [&] { std::thread([&] { EXPECT_EQ(run(2, 3), 3); }).join(); };
  in_thread();
  const uint64_t before = kernel_objects();
  for (int i = 0; i < 300; ++i) in_thread();
  EXPECT_EQ(kernel_objects(), before);
}

TEST_P(LaunchTest, ThreadsAtTheSameTimeHaveTheirOwnObjects) {
  cl_kernel handles[2];
  std::barrier both(2);
  const auto take = [&](int i) {
    handles[i] = find(3, 3).handle;
    both.arrive_and_wait();
  };
  std::thread first(take, 0), second(take, 1);
  first.join();
  second.join();
  EXPECT_NE(handles[0], handles[1]);
}

// Whichever thread comes first.
TEST_P(LaunchTest, TheDeviceIsDrainedForAKernelsFirstLaunchOnly) {
  const auto drains_of_thread = [&] {
    size_t drains = 0;
    std::thread([&] {
      set_current_device(GetParam());
      trace::start({.calls = true});
      launch(current_stream(GetParam()), find(4, 3), {1}, {1}, resolve(memory.get()));
      for (const trace::Command& command : trace::stop()) {
        drains += command.kind == trace::Kind::kWait;
      }
    }).join();
    return drains;
  };
  run(4, 3);
  EXPECT_EQ(drains_of_thread(), 0u) << "this thread still has its own object";
}

TEST_P(LaunchTest, ALaunchWithoutMemoryIsTriedOnceMore) {
  Allocator& allocator = Allocator::instance();
  run(5, 3);
  allocator.allocate(1 << 24);  // freed at once, so it is cached
  const auto reserved = [&] {
    return allocator.getDeviceStats(GetParam()).reserved_bytes[0].current;
  };
  const auto before = reserved();
  test::fail_launches(1);
  EXPECT_EQ(run(5, 3), 3);
  EXPECT_LT(reserved(), before) << "the cache was not freed";
  test::fail_launches(2);
  EXPECT_THROW(run(5, 3), c10::OutOfMemoryError);
  EXPECT_EQ(run(5, 3), 3);
}

// A compiler refuses groups whose registers are more than there are.
TEST_P(LaunchTest, AKernelThatIsNotBuiltGetsSmallerGroups) {
  if (here().family() == KernelFamily::kCpu) GTEST_SKIP() << "kernels of CPUs have no groups";
  const test::Variable no_cache("OCL_CACHE_DIR", "off");
  const size_t largest = here().parameters().work_group_size;
  struct Grouped {
    int round;
    size_t most;

    KernelSource source(Device&, size_t group) const {
      Defines defines;
      defines.set("GROUP", static_cast<int64_t>(std::min(group, most))).set("ROUND", round);
      return {"store_1.cl", "store", defines};
    }
  };
  const auto group = [&](int round, size_t most = 1 << 20) {
    return find_kernel(here(), Grouped{round, most}).group;
  };
  test::fail_builds(1);
  EXPECT_EQ(group(1), largest / 2);
  test::fail_builds(2);
  EXPECT_NE(test::error_text([&] { group(2); }).find(str("GROUP ", largest, ",")),
            std::string::npos)
      << "the first failure is told";
  test::fail_builds(1);
  EXPECT_EQ(group(3, largest / 8), largest / 16) << "half of the kernel's own group";
}

TEST(Launch, PartsOfAGridHaveFewEnoughItemsInAll) {
  const GridLimits limits{size_t{1} << 31, 65535, 1e30};
  constexpr size_t kLarge = size_t{1} << 32;  // the product of two is beyond size_t
  for (const Range& global :
       {Range{1 << 16, 1 << 15, 3}, Range{1 << 20, 3000, 1}, Range{256, 65535, 190},
        Range{kLarge, 3, 3}, Range{kLarge, kLarge, 1}, Range{kLarge, kLarge, kLarge}}) {
    const Range local{256};
    EXPECT_FALSE(fits(limits, global, local, 0));
    const Range part = detail::part_of(limits, global, local, 0);
    EXPECT_TRUE(fits(limits, part, local, 0)) << part.x << "x" << part.y << "x" << part.z;
    EXPECT_EQ(part.x % 256, 0);
    EXPECT_GT(part.items(), limits.items / 16);
  }
  EXPECT_TRUE(fits(limits, {1 << 16, 1 << 15}, {256}, 0));
}

TEST_P(LaunchTest, FirstLaunchesDoNotMeet) {
  if (!here().has(Quirk::kFirstLaunchAlone)) GTEST_SKIP() << "the device needs no such care";
  const Program& built = *find(6, 3).program;
  std::atomic<int> inside{0}, met{0};
  const auto launches = [&] {
    for (int i = 0; i < 20; ++i) {
      launch_first(here(), built, nullptr, [&] {
        if (++inside > 1) ++met;
        std::this_thread::yield();
        current_stream(GetParam()).flush();
        --inside;
      });
    }
  };
  std::thread first(launches), second(launches);
  first.join();
  second.join();
  EXPECT_EQ(met, 0);
}

OCL_ON_EVERY_DEVICE(LaunchTest);

}  // namespace
}  // namespace ocl
