// Transfers, maps and pinned memory.
#include "backend/memory/transfer.h"

#include <numeric>

#include "backend/memory/host_allocator.h"
#include "tests/cpp/failing_calls.h"
#include "tests/cpp/support.h"

namespace ocl {
namespace {

struct TransferTest : test::DeviceTest {
  void SetUp() override {
    DeviceTest::SetUp();
    memory = Allocator::instance().allocate(sizeof(numbers));
    std::iota(std::begin(numbers), std::end(numbers), 0);
  }
  void TearDown() override {
    memory.clear();
    DeviceTest::TearDown();
  }
  Stream& stream() { return current_stream(GetParam()); }
  BufferView at(size_t element) const { return resolve(static_cast<int*>(memory.get()) + element); }

  int numbers[1000];
  c10::DataPtr memory;
};

TEST_P(TransferTest, RoundTripWithOffsets) {
  copy_to_device(stream(), at(0), numbers, sizeof(numbers));
  copy_on_device(stream(), at(500), at(10), 20 * sizeof(int));
  int back[30];
  copy_to_host(stream(), back, at(495), sizeof(back));
  EXPECT_EQ(back[4], 499);
  EXPECT_EQ(back[5], 10);
  EXPECT_EQ(back[24], 29);
  EXPECT_EQ(back[25], 520);
}

// A thread that waits in a read of Intel's runtime leaves a processor idle; in clFinish it works.
TEST_P(TransferTest, ReadsFindNothingToWaitForOnIntelsRuntime) {
  if (!here().has(Quirk::kWaitRunsCommands)) GTEST_SKIP() << "not Intel's runtime";
  const test::SlowKernel slow(here());
  slow(stream(), at(7), 42);
  bool idle = false;
  test::on_read([&](const void*) { idle = stream().idle(); });
  int back = 0;
  copy_to_host(stream(), &back, at(7), sizeof(back));
  test::on_read({});
  EXPECT_EQ(back, 42);
  EXPECT_TRUE(idle);
}

TEST_P(TransferTest, FillTakesPatterns) {
  const int64_t pattern = 0x0000000200000001;
  fill_on_device(stream(), at(2), &pattern, sizeof(pattern), 4 * sizeof(int));
  int back[4];
  copy_to_host(stream(), back, at(2), sizeof(back));
  EXPECT_EQ(std::vector<int>(back, back + 4), (std::vector<int>{1, 2, 1, 2}));
}

TEST_P(TransferTest, MapsWriteThrough) {
  copy_to_device(stream(), at(0), numbers, sizeof(numbers));
  {
    Mapping mapping(stream(), at(10), 5 * sizeof(int), MapAccess::kReadWrite);
    auto* data = static_cast<int*>(mapping.data());
    EXPECT_EQ(data[4], 14);
    data[4] = -1;
    mapping.close();
  }
  EXPECT_EQ(test::read_int(stream(), at(14)), -1);
  EXPECT_EQ(test::read_int(stream(), at(15)), 15);
}

TEST_P(TransferTest, MapsWaitForTheStream) {
  const test::SlowKernel slow(here());
  slow(stream(), at(3), 42);
  const Mapping mapping(stream(), at(3), sizeof(int), MapAccess::kRead);
  EXPECT_EQ(*static_cast<int*>(mapping.data()), 42);
}

// An error came before somebody filled it. A copy is recycled memory, which holds other bytes.
TEST_P(TransferTest, MapsThatAreNotClosedWriteNothing) {
  copy_to_device(stream(), at(0), numbers, sizeof(numbers));
  {
    const c10::DataPtr pinned = host_allocator()->allocate(5 * sizeof(int));
    std::fill_n(static_cast<int*>(pinned.get()), 5, -1);
  }
  { const Mapping mapping(stream(), at(10), 5 * sizeof(int), MapAccess::kDiscardAndWrite); }
  for (int i = 10; i < 15; ++i) EXPECT_EQ(test::read_int(stream(), at(i)), i);
}

TEST_P(TransferTest, MapCanBeMoved) {
  Mapping first(stream(), at(0), sizeof(int), MapAccess::kReadWrite);
  const Mapping second(std::move(first));
  EXPECT_EQ(first.data(), nullptr);
  EXPECT_NE(second.data(), nullptr);
}

TEST_P(TransferTest, FailureNamesWhatAndWhere) {
  const std::string text =
      test::error_text([&] { copy_to_host(stream(), numbers, at(0), size_t{1} << 40); });
  EXPECT_NE(text.find(str("cannot copy to the host 1.00 TiB on ", here().label())),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("CL_INVALID_VALUE (-30)"), std::string::npos) << text;
}

// A destructor frees it, which must not throw; the host waits instead.
TEST_P(TransferTest, PinnedMemorySurvivesEventsThatCannotBeRecorded) {
  c10::DataPtr pinned = host_allocator()->allocate(sizeof(numbers));
  cl::Event copied;
  copy_to_device(stream(), at(0), pinned.get(), sizeof(numbers), &copied);
  record_pinned(pinned.get(), pinned.get_context(), stream().unpack());
  const void* const address = pinned.get();
  {
    const test::FailingMarkers failing;
    pinned.clear();
  }
  EXPECT_TRUE(stream().idle());
  EXPECT_EQ(host_allocator()->allocate(sizeof(numbers)).get(), address);
}

TEST_P(TransferTest, PinnedMemoryIsKnownAndCached) {
  c10::DataPtr pinned = host_allocator()->allocate(4096);
  const void* address = pinned.get();
  EXPECT_TRUE(is_pinned(address));
  EXPECT_TRUE(is_pinned(static_cast<const char*>(address) + 4095));
  EXPECT_FALSE(is_pinned(numbers));
  pinned.clear();
  pinned = host_allocator()->allocate(4096);
  EXPECT_EQ(pinned.get(), address);
}

// The copy waits in the queue when the memory is freed: the next owner must not get it yet.
TEST_P(TransferTest, PinnedMemoryInUseIsNotReused) {
  const test::SlowKernel slow(here());
  const c10::DataPtr other = Allocator::instance().allocate(sizeof(int));
  for (const bool recorded : {false, true}) {
    c10::DataPtr pinned = host_allocator()->allocate(1000);
    const void* address = pinned.get();
    slow(stream(), resolve(other.get()), 1);
    cl::Event event;
    copy_to_device(stream(), at(0), address, 1000, &event);
    if (recorded) record_pinned(address, pinned.get_context(), stream().unpack());
    pinned.clear();
    c10::DataPtr next = host_allocator()->allocate(1000);
    EXPECT_EQ(next.get() == address, !recorded);
    stream().finish();
  }
}

OCL_ON_EVERY_DEVICE(TransferTest);

}  // namespace
}  // namespace ocl
