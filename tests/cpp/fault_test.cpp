#include "backend/queue/fault.h"

#include <future>
#include <set>
#include <thread>
#include <vector>

#include "tests/cpp/failing_calls.h"
#include "tests/cpp/support.h"

namespace ocl {
namespace {

constexpr const char* kKernel = R"(#include "common.clh"
__kernel void check(FAULT_ARGUMENT, const long value, const long bound) {
  if (value >= bound) report_fault(FAULT_FORWARD, value, bound);
}
)";

struct FaultTest : test::DeviceTest {
  void SetUp() override {
    DeviceTest::SetUp();
    // The real header, in one folder with a kernel of the test.
    std::ofstream(folder.path() / "common.clh") << embedded_sources().at("common.clh");
    folder.write("check.cl", kKernel);
    const Program& built = program(here(), "check.cl", {});
    kernel.program = &built;
    kernel.name = "check";
    kernel.handle = clCreateKernel(built.handle(), "check", nullptr);
    kernel.launched = true;  // keeps the program out of the cache
  }
  void TearDown() override {
    clReleaseKernel(kernel.handle);
    DeviceTest::TearDown();
  }
  void check(Stream& stream, int site, int64_t value, int64_t bound) {
    launch(stream, kernel, {1}, {1}, FaultArgument{site}, value, bound);
  }

  test::TemporaryFolder folder;
  test::Variable variable{"OCL_KERNEL_DIR", folder.path().string()};
  Kernel kernel;
  const int runtime = fault_site({"aten::gather", FaultClass::kRuntime, "index", "size"});
  const int index = fault_site({"aten::index", FaultClass::kIndex, "index", "dimension of size"});
};

TEST_P(FaultTest, NoFaultNoError) {
  Stream& stream = current_stream(GetParam());
  check(stream, runtime, 3, 4);
  EXPECT_NO_THROW(stream.finish());
}

TEST_P(FaultTest, IsRaisedOnceAtTheNextSynchronisation) {
  Stream& stream = current_stream(GetParam());
  check(stream, runtime, 7, 4);
  const std::string text = test::error_text([&] { stream.finish(); });
  EXPECT_NE(text.find("aten::gather: index 7 is out of bounds for size 4 (on " + here().label()),
            std::string::npos)
      << text;
  EXPECT_NO_THROW(stream.finish());
}

TEST_P(FaultTest, FirstFaultWins) {
  Stream& stream = current_stream(GetParam());
  check(stream, index, int64_t{5} << 40, -3);
  check(stream, runtime, 7, 4);
  const std::string text = test::error_text<c10::IndexError>([&] { stream.finish(); });
  EXPECT_NE(text.find("aten::index: index 5497558138880 is out of bounds for dimension of size -3"),
            std::string::npos)
      << text;
}

TEST_P(FaultTest, ReadsAndEventsRaiseIt) {
  Stream& stream = current_stream(GetParam());
  const c10::DataPtr memory = Allocator::instance().allocate(sizeof(int));
  check(stream, runtime, 7, 4);
  EXPECT_THROW(test::read_int(stream, resolve(memory.get())), c10::Error);
  check(stream, runtime, 7, 4);
  Event event;
  event.record(stream);
  EXPECT_THROW(event.synchronize(), c10::Error);
  check(stream, runtime, 7, 4);
  EXPECT_THROW(Mapping(stream, resolve(memory.get()), 4, MapAccess::kRead), c10::Error);
  check(stream, runtime, 7, 4);
  EXPECT_THROW(synchronize(GetParam()), c10::Error);
}

TEST_P(FaultTest, StreamsHaveTheirOwn) {
  Stream& stream = current_stream(GetParam());
  Stream& other = ocl::stream(stream_from_pool(GetParam(), false));
  check(other, runtime, 7, 4);
  EXPECT_NO_THROW(stream.finish());
  EXPECT_THROW(other.finish(), c10::Error);
}

TEST_P(FaultTest, ThreadsThatShareAStreamGetTheirOwn) {
  constexpr int kFaults = 3000;
  Stream& stream = current_stream(GetParam());
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) EXPECT_NO_THROW(stream.finish());
  });
  for (int i = 0; i < kFaults; ++i) {
    check(stream, runtime, 7, 4);
    EXPECT_THROW(stream.finish(), c10::Error);
  }
  done = true;
  other.join();
  EXPECT_NO_THROW(stream.finish());
}

TEST(FaultThread, MoreThanThereArePlacesRaise) {
  std::vector<std::shared_ptr<FaultThread>> threads(kFaultPlaces);
  std::set<int> places;
  const std::string text = test::error_text([&] {
    for (auto& thread : threads) {
      thread = std::make_shared<FaultThread>(/*waits=*/true);
      EXPECT_TRUE(places.insert(thread->place()).second);
    }
  });
  EXPECT_NE(text.find(str("more than ", kFaultPlaces - 1, " threads at a time")), std::string::npos)
      << text;
  EXPECT_FALSE(places.contains(0));
  threads.front()->end();
  EXPECT_EQ(std::make_shared<FaultThread>(true)->place(), threads.front()->place());
  for (auto& thread : threads) {
    if (thread) thread->end();
  }
}

TEST_P(FaultTest, AnybodyRaisesThoseOfAThreadThatHasEnded) {
  Stream& stream = current_stream(GetParam());
  for (int i = 0; i < 3; ++i) {
    std::thread([&] { check(stream, index, i, -1); }).join();
  }
  for (int i = 0; i < 3; ++i) {
    const std::string text = test::error_text<c10::IndexError>([&] { stream.finish(); });
    EXPECT_NE(text.find(str("index ", i, " is out of bounds")), std::string::npos) << text;
  }
  EXPECT_NO_THROW(stream.finish());
}

TEST_P(FaultTest, AnEventTellsThoseOfItsThread) {
  Stream& stream = current_stream(GetParam());
  std::promise<Event> recorded;
  std::promise<void> asked;
  std::thread other([&] {
    check(stream, runtime, 7, 4);
    Event event;
    event.record(stream);
    recorded.set_value(std::move(event));
    asked.get_future().wait();
    EXPECT_NO_THROW(stream.finish());
  });
  const Event event = recorded.get_future().get();
  EXPECT_NO_THROW(stream.finish());
  EXPECT_THROW(event.synchronize(), c10::Error);
  asked.set_value();
  other.join();
}

TEST_P(FaultTest, EventsDoNotWaitForWhatFollows) {
  Stream& stream = current_stream(GetParam());
  for (const int64_t value : {int64_t{3}, int64_t{7}}) {
    check(stream, runtime, value, 4);
    Event event;
    event.record(stream);
    test::Gate gate(stream);
    check(stream, index, 9, 4);
    if (value < 4) {
      EXPECT_NO_THROW(event.synchronize());
    } else {
      EXPECT_THROW(event.synchronize(), c10::Error);
    }
    EXPECT_TRUE(gate.open());
    EXPECT_THROW(stream.finish(), c10::IndexError);
  }
}

// On devices with memory of their own, a read to other memory may wait for the stream.
TEST_P(FaultTest, ReportsAreReadIntoPinnedMemory) {
  if (here().uses_host_memory()) GTEST_SKIP() << "a read waits for nothing on this device";
  Stream& stream = current_stream(GetParam());
  std::vector<const char*> read;
  test::on_read([&](const void* host) { read.push_back(static_cast<const char*>(host)); });
  constexpr size_t kReports = 70;  // more than there are slots
  std::vector<Event> events(kReports);
  for (Event& event : events) {
    check(stream, runtime, 7, 4);
    event.record(stream);
  }
  test::on_read({});
  ASSERT_EQ(read.size(), kReports);
  EXPECT_EQ(std::abs(read[1] - read[0]), kFaultPlaces * 8 * sizeof(cl_int)) << "no neighbours";
  for (Event& event : events) EXPECT_THROW(event.synchronize(), c10::Error);
  EXPECT_NO_THROW(stream.finish());
}

TEST_P(FaultTest, AWaitRaisesTheFirstFaultThatItCovers) {
  Stream& stream = current_stream(GetParam());
  check(stream, runtime, 7, 4);
  Event event;
  event.record(stream);
  check(stream, index, 9, 4);
  const std::string text = test::error_text([&] { stream.finish(); });
  EXPECT_NE(text.find("aten::gather"), std::string::npos) << text;
  EXPECT_NO_THROW(stream.finish());
  EXPECT_NO_THROW(event.synchronize());
}

TEST_P(FaultTest, SynchronizeDrainsAllStreamsFirst) {
  const test::SlowKernel slow(here());
  const c10::DataPtr memory = Allocator::instance().allocate(sizeof(int));
  Stream& first = current_stream(GetParam());
  Stream& second = ocl::stream(stream_from_pool(GetParam(), false));
  check(first, runtime, 7, 4);
  slow(second, resolve(memory.get()), 5);
  check(second, index, 7, 4);
  EXPECT_THROW(synchronize(GetParam()), c10::Error);
  EXPECT_TRUE(second.idle());
  EXPECT_THROW(synchronize(GetParam()), c10::IndexError) << "the second stream's is not lost";
  EXPECT_NO_THROW(synchronize(GetParam()));
}

OCL_ON_EVERY_DEVICE(FaultTest);

}  // namespace
}  // namespace ocl
