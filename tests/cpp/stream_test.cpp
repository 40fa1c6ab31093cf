// Streams and events.
#include "backend/stream.h"

#include <set>
#include <thread>

#include "tests/cpp/failing_calls.h"
#include "tests/cpp/support.h"

namespace ocl {
namespace {

struct StreamTest : test::DeviceTest {
  Stream& pooled(bool high = false) { return stream(stream_from_pool(GetParam(), high)); }
  c10::DataPtr memory() { return Allocator::instance().allocate(sizeof(int)); }
};

TEST_P(StreamTest, PoolGoesRound) {
  std::set<StreamId> low, high;
  for (int i = 0; i < kStreamsPerPriority; ++i) {
    low.insert(pooled(false).id());
    high.insert(pooled(true).id());
  }
  EXPECT_EQ(low.size(), size_t{kStreamsPerPriority});
  EXPECT_EQ(high.size(), size_t{kStreamsPerPriority});
  for (const StreamId id : low) EXPECT_FALSE(high_priority(id)) << id;
  for (const StreamId id : high) EXPECT_TRUE(high_priority(id)) << id;
  EXPECT_FALSE(high_priority(default_stream(GetParam()).id()));
}

TEST_P(StreamTest, CurrentStreamIsOfTheThread) {
  Stream& other = pooled();
  const c10::Stream former = exchange_stream(other.unpack());
  EXPECT_EQ(&current_stream(GetParam()), &other);
  Stream* in_thread = nullptr;
  std::thread([&] { in_thread = &current_stream(GetParam()); }).join();
  EXPECT_EQ(in_thread, &default_stream(GetParam()));
  EXPECT_EQ(exchange_stream(former), other.unpack());
  EXPECT_EQ(&current_stream(GetParam()), &default_stream(GetParam()));
}

TEST_P(StreamTest, UnknownStreamIsRefused) {
  const c10::Device device(c10::DeviceType::PrivateUse1, GetParam());
  EXPECT_THROW(stream(c10::Stream(c10::Stream::UNSAFE, device, 9999)), c10::ValueError);
  EXPECT_THROW(stream(c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kCPU), 0)),
               c10::ValueError);
}

TEST_P(StreamTest, EventBeforeRecord) {
  const Event event;
  EXPECT_FALSE(event.recorded());
  EXPECT_TRUE(event.query());
  event.synchronize();
  event.block(pooled());
  EXPECT_THROW(event.elapsed_ms(event), c10::ValueError);
}

TEST_P(StreamTest, QueryDoesNotBlock) {
  const test::SlowKernel slow(here());
  const c10::DataPtr out = memory();
  Stream& stream = pooled();
  Event start, end;
  start.record(stream);
  slow(stream, resolve(out.get()), 5);
  end.record(stream);
  EXPECT_FALSE(stream.idle());
  EXPECT_FALSE(end.query());
  EXPECT_THROW(start.elapsed_ms(end), c10::Error) << "the end has not been reached";
  end.synchronize();
  EXPECT_TRUE(end.query());
  EXPECT_TRUE(stream.idle());
  EXPECT_GT(start.elapsed_ms(end), 1);
  EXPECT_LT(end.elapsed_ms(start), -1);
  EXPECT_EQ(test::read_int(stream, resolve(out.get())), 5);
}

TEST_P(StreamTest, MarkersThatFailLeaveTheStreamAsItWas) {
  const test::SlowKernel slow(here());
  const c10::DataPtr out = memory();
  Stream& stream = pooled();
  stream.marker();
  stream.finish();
  {
    const test::FailingMarkers failing;
    EXPECT_THROW(stream.marker(), c10::Error);
  }
  const test::Gate gate(stream);
  slow(stream, resolve(out.get()), 5, 1);
  EXPECT_FALSE(stream.idle());
}

TEST_P(StreamTest, EventCanBeRecordedAgain) {
  const test::SlowKernel slow(here());
  const c10::DataPtr out = memory();
  Event event;
  event.record(pooled());
  event.synchronize();
  Stream& second = pooled();
  slow(second, resolve(out.get()), 1);
  event.record(second);
  EXPECT_FALSE(event.query());
  event.synchronize();
  EXPECT_TRUE(second.idle());
}

// Measured: the second stream's kernel starts before the first's has ended.
TEST_P(StreamTest, TwoStreamsOverlap) {
  const test::SlowKernel slow(here());
  if (here().properties().max_compute_units < 2) GTEST_SKIP() << "the device has one core";
  const c10::DataPtr memories[] = {memory(), memory()};
  cl::Event events[2];
  Stream* streams[] = {&pooled(), &pooled()};
  for (int i = 0; i < 2; ++i) {
    const BufferView view = resolve(memories[i].get());
    const cl_mem buffer = view.buffer();
    const cl_ulong offset = view.offset, rounds = 300'000'000;
    const int value = i;
    const size_t one = 1;
    clSetKernelArg(slow.handle(), 0, sizeof(buffer), &buffer);
    clSetKernelArg(slow.handle(), 1, sizeof(offset), &offset);
    clSetKernelArg(slow.handle(), 2, sizeof(value), &value);
    clSetKernelArg(slow.handle(), 3, sizeof(rounds), &rounds);
    ASSERT_EQ(clEnqueueNDRangeKernel(streams[i]->queue()(), slow.handle(), 1, nullptr, &one, &one,
                                     0, nullptr, &events[i]()),
              CL_SUCCESS);
    streams[i]->flush();
  }
  for (Stream* stream : streams) stream->finish();
  const auto start = [&](int i) {
    return events[i].getProfilingInfo<CL_PROFILING_COMMAND_START>();
  };
  const auto end = [&](int i) { return events[i].getProfilingInfo<CL_PROFILING_COMMAND_END>(); };
  EXPECT_LT(start(1), end(0));
  EXPECT_LT(start(0), end(1));
}

// The same program with and without the wait: only the wait makes the result right.
TEST_P(StreamTest, WaitOrdersTwoStreams) {
  const test::SlowKernel slow(here());
  if (here().properties().max_compute_units < 2) GTEST_SKIP() << "the device has one core";
  const c10::DataPtr from = memory(), to = memory();
  const BufferView source = resolve(from.get()), target = resolve(to.get());
  Stream &writer = pooled(), &reader = pooled();
  for (const bool wait : {true, false}) {
    const int zero = 0;
    fill_on_device(writer, source, &zero, sizeof(zero), sizeof(zero));
    writer.finish();
    slow(writer, source, 42);
    Event written;
    written.record(writer);
    if (wait) written.block(reader);
    copy_on_device(reader, target, source, sizeof(int));
    EXPECT_EQ(test::read_int(reader, target), wait ? 42 : 0);
    writer.finish();
  }
}

// Contexts differ between devices: the host waits.
TEST_P(StreamTest, WaitWorksAcrossDevices) {
  const test::SlowKernel slow(here());
  const c10::DataPtr out = memory();
  Stream& writer = pooled();
  slow(writer, resolve(out.get()), 42);
  Event written;
  written.record(writer);
  const DeviceIndex other = static_cast<DeviceIndex>((GetParam() + 1) % device_count());
  if (other == GetParam()) GTEST_SKIP() << "needs two devices";
  written.block(default_stream(other));
  EXPECT_TRUE(written.query());
}

TEST_P(StreamTest, SynchronizeWaitsForAllStreams) {
  const test::SlowKernel slow(here());
  const c10::DataPtr first = memory(), second = memory();
  Stream &a = pooled(), &b = pooled();
  slow(a, resolve(first.get()), 1);
  slow(b, resolve(second.get()), 2);
  synchronize(GetParam());
  EXPECT_TRUE(a.idle());
  EXPECT_TRUE(b.idle());
}

OCL_ON_EVERY_DEVICE(StreamTest);

}  // namespace
}  // namespace ocl
