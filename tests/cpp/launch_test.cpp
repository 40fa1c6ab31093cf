// Kernels of call sites and of threads.
#include "backend/launch.h"

#include <barrier>
#include <thread>

#include "backend/trace.h"
#include "tests/cpp/failing_calls.h"
#include "tests/cpp/support.h"

namespace ocl {
namespace {

constexpr const char* kKernel = R"(
__kernel void store(__global char *out, const ulong offset) {
  *(__global int *)(out + offset) = VALUE;
}
)";

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
  const Kernel& find(const Site& site, int value) {
    return find_kernel(here(), {&site}, [&] {
      return KernelSource{str("store_", value, ".cl"), "store", {}};
    });
  }
  int run(const Site& site, int value) {
    set_current_device(GetParam());
    Stream& stream = current_stream(GetParam());
    launch(stream, find(site, value), {1}, {1}, resolve(memory.get()));
    return test::read_int(stream, resolve(memory.get()));
  }

  test::TemporaryFolder folder;
  test::Variable variable{"OCL_KERNEL_DIR", folder.path().string()};
  c10::DataPtr memory;
};

static_assert(!std::is_constructible_v<KernelKey, const char*>, "the linker merges literals");

TEST_P(LaunchTest, SitesOfEqualTextAreTwo) {
  static Site first, second, third;
  EXPECT_EQ(run(first, 1), 1);
  EXPECT_EQ(run(second, 2), 2);
  EXPECT_EQ(run(first, 1), 1);
}

TEST_P(LaunchTest, ThreadsLeaveTheirKernelsToTheNext) {
  static Site site;
  const auto in_thread = [&] { std::thread([&] { EXPECT_EQ(run(site, 3), 3); }).join(); };
  in_thread();
  const uint64_t before = kernel_objects();
  for (int i = 0; i < 300; ++i) in_thread();
  EXPECT_EQ(kernel_objects(), before);
}

TEST_P(LaunchTest, ThreadsAtTheSameTimeHaveTheirOwnObjects) {
  static Site site;
  cl_kernel handles[2];
  std::barrier both(2);
  const auto take = [&](int i) {
    handles[i] = find(site, 3).handle;
    both.arrive_and_wait();
  };
  std::thread first(take, 0), second(take, 1);
  first.join();
  second.join();
  EXPECT_NE(handles[0], handles[1]);
}

// Whichever thread comes first.
TEST_P(LaunchTest, TheDeviceIsDrainedForAKernelsFirstLaunchOnly) {
  static Site site;
  const auto drains_of_thread = [&] {
    size_t drains = 0;
    std::thread([&] {
      set_current_device(GetParam());
      trace::start({.calls = true});
      launch(current_stream(GetParam()), find(site, 3), {1}, {1}, resolve(memory.get()));
      for (const trace::Command& command : trace::stop()) {
        drains += command.kind == trace::Kind::kWait;
      }
    }).join();
    return drains;
  };
  run(site, 3);
  EXPECT_EQ(drains_of_thread(), 0u) << "this thread still has its own object";
}

TEST_P(LaunchTest, ALaunchWithoutMemoryIsTriedOnceMore) {
  static Site site;
  Allocator& allocator = Allocator::instance();
  run(site, 3);
  allocator.allocate(1 << 24);  // and cached
  const auto reserved = [&] {
    return allocator.getDeviceStats(GetParam()).reserved_bytes[0].current;
  };
  const auto before = reserved();
  test::fail_launches(1);
  EXPECT_EQ(run(site, 3), 3);
  EXPECT_LT(reserved(), before) << "the cache was not freed";
  test::fail_launches(2);
  EXPECT_THROW(run(site, 3), c10::OutOfMemoryError);
  EXPECT_EQ(run(site, 3), 3);
}

// A compiler refuses groups whose registers are more than there are.
TEST_P(LaunchTest, AKernelThatIsNotBuiltGetsSmallerGroups) {
  if (here().family() == KernelFamily::kCpu) GTEST_SKIP() << "kernels of CPUs have no groups";
  const test::Variable no_cache("OCL_CACHE_DIR", "off");
  const size_t largest = here().parameters().work_group_size;
  const auto group = [&](const Site& site, int round, size_t most = 1 << 20) {
    return find_kernel(here(), {&site},
                       [&](size_t group) {
                         Defines defines;
                         defines.set("GROUP", static_cast<int64_t>(std::min(group, most)))
                             .set("ROUND", round);
                         return KernelSource{"store_1.cl", "store", defines};
                       })
        .group;
  };
  static Site first, second, third;
  test::fail_builds(1);
  EXPECT_EQ(group(first, 1), largest / 2);
  test::fail_builds(2);
  EXPECT_NE(test::error_text([&] { group(second, 2); }).find(str("GROUP ", largest, ",")),
            std::string::npos)
      << "the first failure is told";
  test::fail_builds(1);
  EXPECT_EQ(group(third, 3, largest / 8), largest / 16) << "half of the kernel's own group";
}

TEST(Launch, PartsOfAGridHaveFewEnoughItemsInAll) {
  const GridLimits limits{size_t{1} << 31, 65535, 1e30};
  for (const Range& global : {Range{1 << 16, 1 << 15, 3}, Range{1 << 20, 3000, 1},
                              Range{256, 65535, 190}, Range{size_t{1} << 32, 3, 3}}) {
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
  static Site site;
  const Program& built = *find(site, 3).program;
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
