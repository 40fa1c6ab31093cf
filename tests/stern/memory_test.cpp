// Memory of its own, its budget, and the order of commands.
#include <cstring>

#include "tests/stern/test_support.h"

namespace stern_test {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

using MemoryTest = SternTest;
using MemoryDeathTest = SternTest;

TEST_F(MemoryTest, FreshBuffersHoldGarbage) {
  EXPECT_EQ(bytes_of(buffer(100), 100), std::vector<unsigned char>(100, 0xCD));
}

TEST_F(MemoryTest, AllocationIsLazyAndHasABudget) {
  std::vector<cl::Buffer> all;
  for (int i = 0; i < 4; ++i) all.push_back(buffer(128 * kMiB));  // 512 MiB of 384
  EXPECT_EQ(code_of([&] { buffer(129 * kMiB); }), CL_INVALID_BUFFER_SIZE);
  const auto use = [&](const cl::Buffer& each) {
    return code_of([&] { queue.enqueueFillBuffer(each, cl_int{1}, 0, 4); });
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(use(all[i]), CL_SUCCESS);
  EXPECT_EQ(use(all[3]), CL_MEM_OBJECT_ALLOCATION_FAILURE);
  all[0] = cl::Buffer();
  // The fill of the released buffer has not run.
  EXPECT_EQ(use(all[3]), CL_MEM_OBJECT_ALLOCATION_FAILURE);
  queue.finish();
  EXPECT_EQ(use(all[3]), CL_SUCCESS);
}

TEST_F(MemoryTest, HostPointersAreReadAndWrittenLate) {
  cl::Buffer x = buffer(4);
  cl_int source = 1, target = 0;
  queue.enqueueWriteBuffer(x, CL_FALSE, 0, 4, &source);
  source = 2;
  queue.enqueueReadBuffer(x, CL_FALSE, 0, 4, &target);
  EXPECT_EQ(target, 0);
  queue.finish();
  EXPECT_EQ(target, 2);
}

TEST_F(MemoryTest, MapsAreCopies) {
  cl::Buffer x = buffer(64);
  queue.enqueueFillBuffer(x, cl_int{7}, 0, 64);
  auto* p = static_cast<cl_int*>(queue.enqueueMapBuffer(x, CL_TRUE, CL_MAP_READ, 4, 8));
  EXPECT_EQ(p[0], 7);
  p[0] = 8;  // is lost
  queue.enqueueUnmapMemObject(x, p);
  p = static_cast<cl_int*>(queue.enqueueMapBuffer(x, CL_TRUE, CL_MAP_WRITE, 4, 8));
  EXPECT_EQ(p[0], 7);
  p[0] = 9;
  queue.enqueueUnmapMemObject(x, p);
  p = static_cast<cl_int*>(
      queue.enqueueMapBuffer(x, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, 0, 64));
  EXPECT_EQ(static_cast<unsigned>(p[1]), 0xBABABABAu);
  std::memset(p, 0, 64);
  queue.enqueueUnmapMemObject(x, p);
  EXPECT_EQ(bytes_of(x, 64), std::vector<unsigned char>(64, 0));
  EXPECT_EQ(clEnqueueUnmapMemObject(queue(), x(), p, 0, nullptr, nullptr), CL_INVALID_VALUE);
}

TEST_F(MemoryTest, OverlappingMapsForWritingAreRefused) {
  cl::Buffer x = buffer(64);
  void* const p = queue.enqueueMapBuffer(x, CL_TRUE, CL_MAP_WRITE, 0, 32);
  EXPECT_EQ(code_of([&] { queue.enqueueMapBuffer(x, CL_TRUE, CL_MAP_READ, 16, 32); }),
            CL_INVALID_OPERATION);
  queue.enqueueUnmapMemObject(x, p);
  void* const q = queue.enqueueMapBuffer(x, CL_TRUE, CL_MAP_READ, size_t{16}, 32);
  queue.enqueueUnmapMemObject(x, q);
}

TEST_F(MemoryTest, HostMemoryIsUpToDateOnlyInMaps) {
  std::vector<cl_int> host(16, 1);
  cl::Buffer x(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, size_t{64}, host.data());
  EXPECT_EQ(x.getInfo<CL_MEM_HOST_PTR>(), host.data());
  queue.enqueueFillBuffer(x, cl_int{5}, 0, 64);
  queue.finish();
  EXPECT_EQ(host[3], 1);
  void* const p = queue.enqueueMapBuffer(x, CL_TRUE, CL_MAP_READ, 0, 64);
  EXPECT_EQ(p, host.data());
  EXPECT_EQ(host[3], 5);
  queue.enqueueUnmapMemObject(x, p);
}

TEST_F(MemoryTest, SubBuffersAreAligned) {
  cl::Buffer x = buffer(4096);
  const auto part = [&](size_t origin) {
    const cl_buffer_region region{origin, 16};
    return code_of(
        [&] { x.createSubBuffer(CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region); });
  };
  EXPECT_EQ(part(256), CL_MISALIGNED_SUB_BUFFER_OFFSET);
  EXPECT_EQ(part(512), CL_SUCCESS);
}

TEST_F(MemoryDeathTest, UseWhileMappedForWritingAborts) {
  cl::Buffer x = buffer(64), y = buffer(64);
  EXPECT_DEATH(
      {
        queue.enqueueMapBuffer(x, CL_TRUE, CL_MAP_WRITE, 0, 4);
        queue.enqueueCopyBuffer(x, y, 32, 0, 4);
        queue.finish();
      },
      "clEnqueueCopyBuffer uses a buffer of 64 bytes that is mapped for writing(.|\n)*mapped "
      "here:(.|\n)*stern_tests(.|\n)*enqueued here:(.|\n)*stern_tests");
  void* const p = queue.enqueueMapBuffer(x, CL_TRUE, CL_MAP_READ, 0, 4);
  queue.enqueueCopyBuffer(x, y, 32, 0, 4);  // reads what is mapped for reading
  queue.finish();
  EXPECT_DEATH(
      {
        queue.enqueueMapBuffer(x, CL_TRUE, CL_MAP_READ, 0, 4);
        queue.enqueueFillBuffer(x, cl_int{1}, 0, 4);
        queue.finish();
      },
      "mapped for reading");
  queue.enqueueUnmapMemObject(x, p);
}

TEST_F(MemoryDeathTest, WritesBesideAMapAbort) {
  cl::Buffer x = buffer(64);
  EXPECT_DEATH(
      {
        auto* p = static_cast<char*>(queue.enqueueMapBuffer(x, CL_TRUE, CL_MAP_WRITE, 0, 12));
        p[12] = 1;
        queue.enqueueUnmapMemObject(x, p);
        queue.finish();
      },
      "wrote beside the 12 bytes");
}

TEST_F(MemoryDeathTest, UseAfterUnmapCrashes) {
  cl::Buffer x = buffer(64);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // they catch the signal
  const auto crashed = [](int status) { return WIFEXITED(status); };
  const char* const message = "DEADLYSIGNAL";
#else
  const testing::KilledBySignal crashed(SIGSEGV);
  const char* const message = "";
#endif
  EXPECT_EXIT(
      {
        auto* p = static_cast<char*>(queue.enqueueMapBuffer(x, CL_TRUE, CL_MAP_READ, 0, 64));
        queue.enqueueUnmapMemObject(x, p);
        queue.finish();
        std::_Exit(p[0]);
      },
      crashed, message);
}

TEST_F(MemoryTest, NothingRunsBeforeAFlush) {
  cl::Buffer x = buffer(4);
  cl::Event event;
  cl_int target = 0;
  queue.enqueueReadBuffer(x, CL_FALSE, 0, 4, &target, nullptr, &event);
  cl::CommandQueue other(context, device);
  EXPECT_EQ(bytes_of(buffer(8), 8).size(), 8u);  // runs `queue`
  queue.enqueueReadBuffer(x, CL_FALSE, 0, 4, &target, nullptr, &event);
  cl::Buffer y = buffer(4);
  cl_int ignored;
  other.enqueueReadBuffer(y, CL_TRUE, 0, 4, &ignored);
  EXPECT_EQ(event.getInfo<CL_EVENT_COMMAND_EXECUTION_STATUS>(), CL_QUEUED);
  event.wait();  // flushes
  EXPECT_EQ(event.getInfo<CL_EVENT_COMMAND_EXECUTION_STATUS>(), CL_COMPLETE);
}

TEST_F(MemoryTest, EventsOrderQueues) {
  cl::CommandQueue other(context, device);
  cl::Buffer x = buffer(4);
  for (cl_int i = 0; i < 200; ++i) {
    cl::Event written;
    queue.enqueueFillBuffer(x, i, 0, 4, nullptr, &written);
    queue.flush();
    const std::vector<cl::Event> after{written};
    cl_int result = -1;
    other.enqueueReadBuffer(x, CL_TRUE, 0, 4, &result, &after);
    ASSERT_EQ(result, i);
  }
}

// Each of two queues without events is the first for some seed. Their kernels may run at a time, so
// that they count with an atomic operation.
TEST_F(MemoryTest, QueuesWithoutEventsRunInAnyOrder) {
  cl::CommandQueue other(context, device);
  cl::Kernel append = kernel(
      "kernel void f(volatile global int* count_and_who, int who) {\n"
      "  count_and_who[1 + atomic_inc(count_and_who)] = who;\n"
      "}\n");
  cl::Buffer x = buffer(12);
  std::vector<bool> first(2);
  for (int i = 0; i < 200; ++i) {
    queue.enqueueFillBuffer(x, cl_int{0}, 0, 12);
    queue.finish();
    cl::UserEvent gate(context);
    const std::vector<cl::Event> after{gate};
    queue.enqueueBarrierWithWaitList(&after);
    other.enqueueBarrierWithWaitList(&after);
    append.setArg(0, x);
    append.setArg(1, cl_int{0});
    queue.enqueueNDRangeKernel(append, {}, {1}, {1});
    append.setArg(1, cl_int{1});
    other.enqueueNDRangeKernel(append, {}, {1}, {1});
    queue.flush();
    other.flush();
    gate.setStatus(CL_COMPLETE);
    queue.finish();
    other.finish();
    cl_int count_and_who[3];
    queue.enqueueReadBuffer(x, CL_TRUE, 0, 12, count_and_who);
    ASSERT_EQ(count_and_who[0], 2);
    ASSERT_EQ(count_and_who[1] + count_and_who[2], 1);
    first.at(count_and_who[1]) = true;
  }
  EXPECT_EQ(first, (std::vector<bool>{true, true}));
}

TEST_F(MemoryDeathTest, AWaitForWhatNobodyFlushedAborts) {
  const Setting soon("STERN_STALL", "1");
  cl::Buffer x = buffer(4);
  cl::CommandQueue other(context, device);
  EXPECT_DEATH(
      {
        cl::Event event;
        queue.enqueueFillBuffer(x, cl_int{1}, 0, 4, nullptr, &event);
        const std::vector<cl::Event> after{event};
        other.enqueueMarkerWithWaitList(&after);
        other.finish();
      },
      "depends on one that was never flushed");
}

TEST_F(MemoryTest, CallbacksAreCalled) {
  cl::UserEvent gate(context);
  const std::vector<cl::Event> after{gate};
  cl::Event event, called;
  queue.enqueueMarkerWithWaitList(&after, &event);
  cl::UserEvent done(context);
  event.setCallback(
      CL_COMPLETE,
      [](cl_event, cl_int status, void* data) {
        static_cast<cl::UserEvent*>(data)->setStatus(status);
      },
      &done);
  queue.flush();
  gate.setStatus(-7);
  EXPECT_EQ(code_of([&] { done.wait(); }), CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
  EXPECT_EQ(event.getInfo<CL_EVENT_COMMAND_EXECUTION_STATUS>(),
            CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
  code_of([&] { queue.finish(); });
}

TEST_F(MemoryTest, ReleasedObjectsAreRefused) {
  cl_mem raw = buffer(4)();
  EXPECT_EQ(clReleaseMemObject(raw), CL_INVALID_MEM_OBJECT);
  EXPECT_EQ(clEnqueueFillBuffer(queue(), raw, &raw, 4, 0, 4, 0, nullptr, nullptr),
            CL_INVALID_MEM_OBJECT);
}

}  // namespace
}  // namespace stern_test
