// Streams and events.
#include "backend/queue/stream.h"

#include <set>
#include <thread>

#include "backend/queue/stream_slots.h"
#include "tests/cpp/failing_calls.h"
#include "tests/cpp/support.h"

namespace ocl {
namespace {

struct StreamTest : test::DeviceTest {
  Stream& pooled(bool high = false) { return stream(stream_from_pool(GetParam(), high)); }
  c10::DataPtr memory() { return Allocator::instance().allocate(sizeof(int)); }
  static void clear(Stream& stream, const c10::DataPtr& memory) {
    const int zero = 0;
    fill_on_device(stream, resolve(memory.get()), &zero, sizeof(zero), sizeof(zero));
    stream.finish();
  }
};

// A stream whose queue begins without profiling.
struct PlainStream : Stream {
  explicit PlainStream(Device& device, test::Variable&& = {"OCL_PROFILING", "0"})
      : Stream(device, 0) {}
};

bool has_profiling(const Stream& stream) {
  return stream.queue().getInfo<CL_QUEUE_PROPERTIES>() & CL_QUEUE_PROFILING_ENABLE;
}

// Sets the arguments of the slow kernel.
void set_arguments(cl_kernel slow, const BufferView& out, int value, cl_ulong rounds) {
  const cl_mem buffer = out.buffer();
  const cl_ulong offset = out.offset;
  clSetKernelArg(slow, 0, sizeof(buffer), &buffer);
  clSetKernelArg(slow, 1, sizeof(offset), &offset);
  clSetKernelArg(slow, 2, sizeof(value), &value);
  clSetKernelArg(slow, 3, sizeof(rounds), &rounds);
}

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

// A wait for a staging stream must not run or await commands of users.
TEST_P(StreamTest, StagingStreamsAreNotOfThePool) {
  std::set<StreamId> users{default_stream(GetParam()).id()}, staging;
  for (int i = 0; i < kStreamsPerPriority; ++i) {
    users.insert({pooled(false).id(), pooled(true).id()});
  }
  for (int i = 0; i < kStagingStreams + 1; ++i) staging.insert(staging_stream(GetParam()).id());
  EXPECT_EQ(staging.size(), size_t{kStagingStreams});
  for (const StreamId id : staging) {
    EXPECT_FALSE(users.contains(id)) << id;
    EXPECT_FALSE(high_priority(id)) << id;
    EXPECT_FALSE(stream_of_id(GetParam(), id).external()) << id;
    EXPECT_TRUE(is_staging(id)) << id;
  }
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
  start.record(stream, /*timed=*/true);
  slow(stream, resolve(out.get()), 5);
  end.record(stream, /*timed=*/true);
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
  if (std::getenv("OPENCL_LAYERS")) GTEST_SKIP() << "the stern device draws what overlaps";
  const c10::DataPtr memories[] = {memory(), memory()};
  cl::Event events[2];
  Stream* streams[] = {&pooled(), &pooled()};
  for (Stream* stream : streams) stream->enable_times();
  for (int i = 0; i < 2; ++i) {
    const size_t one = 1;
    set_arguments(slow.handle(), resolve(memories[i].get()), i, 300'000'000);
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
  if (std::getenv("OPENCL_LAYERS")) GTEST_SKIP() << "the stern device draws what overlaps";
  const c10::DataPtr from = memory(), to = memory();
  const BufferView source = resolve(from.get()), target = resolve(to.get());
  Stream &writer = pooled(), &reader = pooled();
  const auto read_by_reader = [&](bool wait) {
    clear(writer, from);
    slow(writer, source, 42);
    Event written;
    written.record(writer);
    if (wait) written.block(reader);
    copy_on_device(reader, target, source, sizeof(int));
    const int read = test::read_int(reader, target);
    writer.finish();
    return read;
  };
  EXPECT_EQ(read_by_reader(true), 42);
  // The two overlap, unless a busy processor starts the reader late.
  int read = 42;
  for (int attempt = 0; attempt < 5 && read != 0; ++attempt) read = read_by_reader(false);
  EXPECT_EQ(read, 0);
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

TEST_P(StreamTest, QueuesOfGpusBeginWithoutProfiling) {
  const auto begins_with = [&](const char* value) {
    const test::Variable variable("OCL_PROFILING", value);
    return has_profiling(Stream(here(), 0));
  };
  EXPECT_EQ(begins_with(""), here().properties().type == "cpu");
  EXPECT_TRUE(begins_with("1"));
  EXPECT_FALSE(begins_with("0"));
  EXPECT_THROW(begins_with("on"), c10::ValueError);
}

TEST_P(StreamTest, EventsHaveTimesWhereTheyAreWanted) {
  const test::SlowKernel slow(here());
  const c10::DataPtr out = memory();
  PlainStream stream(here());
  Event untimed, start, end;
  untimed.record(stream);
  EXPECT_FALSE(has_profiling(stream));
  start.record(stream, /*timed=*/true);
  EXPECT_TRUE(has_profiling(stream));
  const cl_command_queue lasting = stream.queue()();
  EXPECT_EQ(stream.lasting_queue()(), lasting);
  slow(stream, resolve(out.get()), 5);
  end.record(stream, /*timed=*/true);
  end.synchronize();
  EXPECT_GT(start.elapsed_ms(end), 1);
  EXPECT_NE(test::error_text([&] { untimed.elapsed_ms(end); }).find("enable_timing=True"),
            std::string::npos);
  stream.finish();
}

TEST_P(StreamTest, CommandsKeepTheirOrderWhenTimesBegin) {
  const test::SlowKernel slow(here());
  const c10::DataPtr from = memory(), to = memory();
  PlainStream stream(here());
  clear(stream, from);
  slow(stream, resolve(from.get()), 42);
  stream.enable_times();
  copy_on_device(stream, resolve(to.get()), resolve(from.get()), sizeof(int));
  EXPECT_EQ(test::read_int(stream, resolve(to.get())), 42);
}

// The change comes after the command's thread has read the queue.
TEST_P(StreamTest, ACommandKeepsItsOrderWhenTimesBeginMeanwhile) {
  const test::SlowKernel slow(here());
  const c10::DataPtr from = memory(), to = memory();
  PlainStream stream(here());
  clear(stream, from);
  const size_t one = 1;
  set_arguments(slow.handle(), resolve(from.get()), 42, 100'000'000);
  EXPECT_EQ(stream.enqueue([&](cl_command_queue queue) {
    stream.enable_times();
    EXPECT_NE(stream.queue()(), queue);
    return clEnqueueNDRangeKernel(queue, slow.handle(), 1, nullptr, &one, &one, 0, nullptr,
                                  nullptr);
  }),
            CL_SUCCESS);
  copy_on_device(stream, resolve(to.get()), resolve(from.get()), sizeof(int));
  EXPECT_EQ(test::read_int(stream, resolve(to.get())), 42);
}

TEST_P(StreamTest, ThreadsKeepTheirOrderWhenTimesBegin) {
  for (int round = 0; round < 10; ++round) {
    PlainStream stream(here());
    std::atomic<int> begun{0};
    const auto work = [&] {
      set_current_device(GetParam());
      const c10::DataPtr from = memory(), to = memory();
      const BufferView source = resolve(from.get()), target = resolve(to.get());
      std::vector<int> results(200, -1);
      for (int i = 0; i < static_cast<int>(results.size()); ++i) {
        cl::Event read;
        fill_on_device(stream, source, &i, sizeof(i), sizeof(i));
        copy_on_device(stream, target, source, sizeof(i));
        copy_to_host(stream, &results[i], target, sizeof(i), &read);
        ++begun;
      }
      stream.drain();
      for (int i = 0; i < static_cast<int>(results.size()); ++i) EXPECT_EQ(results[i], i);
    };
    std::thread first(work), second(work);
    while (begun < 20 * round) std::this_thread::yield();
    stream.enable_times();
    first.join();
    second.join();
  }
}

TEST_P(StreamTest, AChangeThatFailsLeavesTheQueue) {
  const c10::DataPtr out = memory();
  PlainStream stream(here());
  const int value = 7;
  fill_on_device(stream, resolve(out.get()), &value, sizeof(value), sizeof(value));
  {
    const test::FailingMarkers failing;
    EXPECT_THROW(stream.enable_times(), c10::Error);
  }
  EXPECT_FALSE(has_profiling(stream));
  EXPECT_EQ(test::read_int(stream, resolve(out.get())), 7);
  stream.enable_times();
  EXPECT_TRUE(has_profiling(stream));
}

// A host that never waits would fill the driver's memory.
TEST_P(StreamTest, UnfinishedCommandsAreLimited) {
  const c10::DataPtr out = memory();
  Stream& stream = pooled();
  stream.finish();
  cl::UserEvent opened(here().context());
  ASSERT_EQ(stream.enqueue([&](cl_command_queue queue) {
    return clEnqueueBarrierWithWaitList(queue, 1, &opened(), nullptr);
  }),
            CL_SUCCESS);
  int enqueued = 0, at_wait = 0;
  test::on_wait([&] {
    if (at_wait) return;
    at_wait = enqueued;
    opened.setStatus(CL_COMPLETE);
  });
  for (; enqueued < 10'000; ++enqueued) {
    fill_on_device(stream, resolve(out.get()), &enqueued, sizeof(int), sizeof(int));
  }
  test::on_wait({});
  if (!at_wait) opened.setStatus(CL_COMPLETE);
  EXPECT_GE(at_wait, 2000);
  EXPECT_LE(at_wait, 4100);
  EXPECT_EQ(test::read_int(stream, resolve(out.get())), 9'999);
}

OCL_ON_EVERY_DEVICE(StreamTest);

}  // namespace
}  // namespace ocl
