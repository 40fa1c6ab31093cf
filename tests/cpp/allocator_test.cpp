#include "backend/memory/allocator.h"

#include <thread>

#include "backend/memory/device_memory.h"
#include "tests/cpp/failing_calls.h"
#include "tests/cpp/support.h"

namespace ocl {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

struct AllocatorTest : test::DeviceTest {
  void SetUp() override {
    DeviceTest::SetUp();
    allocator.emptyCache();
    allocator.resetAccumulatedStats(GetParam());
  }
  void TearDown() override {
    limit_to(here().properties().total_memory);
    DeviceTest::TearDown();
  }
  void limit_to(size_t bytes) {
    const auto total = static_cast<double>(here().properties().total_memory);
    allocator.set_memory_fraction(static_cast<double>(bytes) / total, GetParam());
  }
  size_t reserved() {
    return static_cast<size_t>(allocator.getDeviceStats(GetParam()).reserved_bytes[0].current);
  }
  Stream& pooled() { return stream(stream_from_pool(GetParam(), false)); }

  Allocator& allocator = Allocator::instance();
};

TEST_P(AllocatorTest, AddressesBelongToTheDevice) {
  const c10::DataPtr memory = allocator.allocate(1000);
  EXPECT_EQ(memory.device(), c10::Device(c10::DeviceType::PrivateUse1, GetParam()));
  const BufferView view = resolve(static_cast<char*>(memory.get()) + 10);
  EXPECT_EQ(&view.device(), &here());
  EXPECT_EQ(view.offset, resolve(memory.get()).offset + 10);
}

TEST_P(AllocatorTest, EmptyRequestsNeedNoMemory) {
  const size_t before = reserved();
  const c10::DataPtr memory = allocator.allocate(0);
  EXPECT_EQ(memory.get(), nullptr);
  EXPECT_EQ(memory.device().index(), GetParam());
  EXPECT_EQ(reserved(), before);
}

TEST_P(AllocatorTest, FreedMemoryIsReusedByItsStream) {
  c10::DataPtr memory = allocator.allocate(kMiB);
  const void* address = memory.get();
  memory.clear();
  EXPECT_EQ(allocator.allocate(kMiB).get(), address);
}

TEST_P(AllocatorTest, StreamsHaveTheirOwnMemory) {
  c10::DataPtr memory = allocator.allocate(kMiB);
  const void* address = memory.get();
  memory.clear();
  const c10::Stream former = exchange_stream(pooled().unpack());
  const c10::DataPtr other = allocator.allocate(kMiB);
  exchange_stream(former);
  EXPECT_NE(other.get(), address);
}

// Without recordStream the memory is handed out again although another stream still writes to it.
TEST_P(AllocatorTest, RecordedMemoryIsReusedOnlyWhenTheOtherStreamIsDone) {
  const test::SlowKernel slow(here());
  Stream& other = pooled();
  for (const bool recorded : {false, true}) {
    c10::DataPtr memory = allocator.allocate(64);
    const void* address = memory.get();
    slow(other, resolve(address), 1);
    if (recorded) allocator.recordStream(memory, other.unpack());
    memory.clear();
    c10::DataPtr next = allocator.allocate(64);
    EXPECT_FALSE(other.idle());
    EXPECT_EQ(next.get() == address, !recorded);
    other.finish();
    next.clear();
    EXPECT_EQ(allocator.allocate(64).get(), address) << "afterwards it is";
  }
}

TEST_P(AllocatorTest, HostAccessWaitsForRecordedStreams) {
  const test::SlowKernel slow(here());
  const c10::DataPtr memory = allocator.allocate(sizeof(int));
  Stream& other = pooled();
  allocator.recordStream(memory, other.unpack());
  slow(other, resolve(memory.get()), 42);
  EXPECT_EQ(test::read_int(default_stream(GetParam()), resolve(memory.get())), 42);
  slow(other, resolve(memory.get()), 43);
  const Mapping mapping(default_stream(GetParam()), resolve(memory.get()), sizeof(int),
                        MapAccess::kRead);
  EXPECT_EQ(*static_cast<int*>(mapping.data()), 43);
}

TEST_P(AllocatorTest, RecordingOnAnotherDeviceIsRefused) {
  if (device_count() < 2) GTEST_SKIP() << "needs two devices";
  const auto other = static_cast<DeviceIndex>((GetParam() + 1) % device_count());
  const c10::DataPtr memory = allocator.allocate(64);
  EXPECT_THROW(allocator.recordStream(memory, default_stream(other).unpack()), c10::ValueError);
}

TEST_P(AllocatorTest, OutOfMemoryFreesTheCacheAndTriesAgain) {
  limit_to(reserved() + 64 * kMiB);
  allocator.allocate(40 * kMiB).clear();  // cached now
  const c10::DataPtr larger = allocator.allocate(50 * kMiB);
  EXPECT_NE(larger.get(), nullptr);
  EXPECT_EQ(allocator.getDeviceStats(GetParam()).num_alloc_retries, 1);
  EXPECT_EQ(allocator.getDeviceStats(GetParam()).num_ooms, 0);
}

TEST_P(AllocatorTest, OutOfMemoryWaitsForRecordedStreams) {
  const test::SlowKernel slow(here());
  limit_to(reserved() + 64 * kMiB);
  c10::DataPtr memory = allocator.allocate(40 * kMiB);
  Stream& other = pooled();
  slow(other, resolve(memory.get()), 1);
  allocator.recordStream(memory, other.unpack());
  memory.clear();
  EXPECT_NE(allocator.allocate(50 * kMiB).get(), nullptr);
  EXPECT_TRUE(other.idle());
}

TEST_P(AllocatorTest, OutOfMemoryNamesTheNumbersAndTheProcessGoesOn) {
  const size_t limit = reserved() + 64 * kMiB;
  limit_to(limit);
  const c10::DataPtr kept = allocator.allocate(30 * kMiB);
  const std::string text =
      test::error_text<c10::OutOfMemoryError>([&] { allocator.allocate(100 * kMiB); });
  for (const std::string& part :
       {str("cannot allocate 100.00 MiB on ocl:", int{GetParam()}), std::string("30.00 MiB are in"),
        std::string("that this process may use"), std::string("torch.ocl.empty_cache()"),
        std::string("OCL_MEMORY_MB")}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(allocator.getDeviceStats(GetParam()).num_ooms, 1);
  EXPECT_NE(allocator.allocate(20 * kMiB).get(), nullptr);
  EXPECT_EQ(allocator.getMemoryInfo(GetParam()).second, here().properties().total_memory);
}

TEST_P(AllocatorTest, TooLargeForOneBuffer) {
  const size_t largest = here().properties().max_allocation, bytes = largest + 1;
  const test::Variable limit("OCL_MAX_BUFFER_MB", str(largest / kMiB));
  const std::string text =
      test::error_text<c10::OutOfMemoryError>([&] { allocator.allocate(bytes); });
  EXPECT_NE(text.find("the largest single buffer is"), std::string::npos) << text;
  EXPECT_NE(text.find("CL_DEVICE_MAX_MEM_ALLOC_SIZE"), std::string::npos) << text;
  EXPECT_NE(text.find("OCL_MAX_BUFFER_MB"), std::string::npos) << text;
  EXPECT_NE(allocator.allocate(kMiB).get(), nullptr);
}

TEST_P(AllocatorTest, FractionIsChecked) {
  for (const double fraction : {-1.0, 1.5}) {
    EXPECT_THROW(allocator.set_memory_fraction(fraction, GetParam()), c10::ValueError);
  }
}

TEST_P(AllocatorTest, EmptyCacheKeepsWhatIsInUse) {
  const c10::DataPtr used = allocator.allocate(30 * kMiB);
  allocator.allocate(40 * kMiB).clear();
  const size_t before = reserved();
  allocator.emptyCache();
  EXPECT_EQ(reserved(), before - 40 * kMiB);
  EXPECT_NO_THROW(resolve(used.get()));
}

TEST_P(AllocatorTest, ReleasedAddressIsRefused) {
  c10::DataPtr memory = allocator.allocate(30 * kMiB);
  const void* address = memory.get();
  memory.clear();
  allocator.emptyCache();
  EXPECT_THROW(resolve(address), c10::Error);
}

TEST_P(AllocatorTest, ManyThreads) {
  const auto before = allocator.getDeviceStats(GetParam()).allocated_bytes[0].current;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      set_current_device(GetParam());
      std::vector<c10::DataPtr> held(8);
      for (size_t i = 0; i < 500; ++i) {
        held[i % held.size()] = allocator.allocate(512 + (i * 7919 + t) % 100000);
        if (i % 50 == 0) allocator.emptyCache();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocator.getDeviceStats(GetParam()).allocated_bytes[0].current, before);
}

// The host waits instead.
TEST_P(AllocatorTest, BlocksSurviveEventsThatCannotBeRecorded) {
  const test::SlowKernel slow(here());
  Stream& other = pooled();
  c10::DataPtr memory = allocator.allocate(64);
  const void* address = memory.get();
  slow(other, resolve(address), 1);
  allocator.recordStream(memory, other.unpack());
  {
    const test::FailingMarkers failing;
    memory.clear();
  }
  EXPECT_TRUE(other.idle());
  EXPECT_EQ(allocator.allocate(64).get(), address);
}

// A command that failed uses no memory any more; who asks the stream is told.
TEST_P(AllocatorTest, FailedEventsAreNotRaisedByAllocations) {
  Stream& other = pooled();
  c10::DataPtr memory = allocator.allocate(64);
  const void* address = memory.get();
  allocator.recordStream(memory, other.unpack());
  memory.clear();
  {
    const test::FailingCommands failing;
    c10::DataPtr first, second;
    EXPECT_NO_THROW(first = allocator.allocate(64));
    EXPECT_EQ(first.get(), address);
    EXPECT_NO_THROW(second = allocator.allocate(64));
  }
  EXPECT_NE(test::error_text([&] { other.finish(); }).find("CL_OUT_OF_RESOURCES"),
            std::string::npos);
  EXPECT_NO_THROW(other.finish());
}

// The stream has told the failure when another event of the same commands is asked.
TEST_P(AllocatorTest, FailuresAreToldOnce) {
  Stream& stream = pooled();
  Event first, second, third;
  first.record(stream);
  second.record(stream);
  const test::FailingCommands failing;
  EXPECT_TRUE(first.over());
  EXPECT_THROW(stream.drain(), c10::Error);
  EXPECT_TRUE(second.over());
  EXPECT_NO_THROW(stream.drain());
  third.record(stream);
  EXPECT_TRUE(third.over());
  EXPECT_THROW(stream.drain(), c10::Error);
}

// Drivers place memory of CL_MEM_ALLOC_HOST_PTR on the host's side, which is slower for a GPU.
TEST_P(AllocatorTest, OnlyMemoryThatIsMappedIsOfTheHost) {
  const cl::Buffer buffer = DeviceMemory(here()).create(kMiB);
  const bool of_host = buffer.getInfo<CL_MEM_FLAGS>() & CL_MEM_ALLOC_HOST_PTR;
  EXPECT_EQ(of_host, here().uses_host_memory());
}

// The first use of a buffer fails where its memory ran out.
TEST_P(AllocatorTest, MemoryIsCommittedWhenABufferIsCreated) {
  DeviceMemory memory(here());
  const cl::Buffer buffer = memory.create(kMiB);
  ASSERT_NE(buffer(), nullptr);
  test::fail_fills(1);
  EXPECT_EQ(memory.commit(buffer, kMiB).code, CL_MEM_OBJECT_ALLOCATION_FAILURE);
  EXPECT_EQ(memory.commit(buffer, kMiB).code, CL_SUCCESS);
}

TEST_P(AllocatorTest, GpusCommitMemoryBeforeItIsUsed) {
  if (here().family() != KernelFamily::kGpu) GTEST_SKIP() << "memory of CPU devices is the host's";
  DeviceMemory memory(here());
  test::fail_fills(1);
  EXPECT_EQ(memory.create(kMiB)(), nullptr);
  // The allocator frees its cache and tries again.
  test::fail_fills(1);
  EXPECT_NO_THROW(allocator.allocate(64 * kMiB));
  EXPECT_EQ(allocator.getDeviceStats(GetParam()).num_alloc_retries, 1);
}

OCL_ON_EVERY_DEVICE(AllocatorTest);

}  // namespace
}  // namespace ocl
