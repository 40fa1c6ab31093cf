// Commands of several queues that run at once.
#include <string>

#include "tests/stern/test_support.h"

namespace stern_test {
namespace {

constexpr const char* kSlow = R"(
  kernel void f(global int* x, int rounds) {
    int y = x[0];
    for (int i = 0; i < rounds; ++i) y = y * 1664525 + 1013904223;
    x[0] = y;
  })";

class OverlapTest : public SternTest {
 protected:
  void SetUp() override {
    SternTest::SetUp();
    slow = kernel(kSlow);
    other = cl::CommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE);
  }

  cl::Event enqueue(const cl::CommandQueue& to, const cl::Buffer& x, cl_int rounds,
                    const cl::Event& after = {}) {
    slow.setArg(0, x);
    slow.setArg(1, rounds);
    cl::Event event;
    std::vector<cl::Event> waits;
    if (after()) waits.push_back(after);
    to.enqueueNDRangeKernel(slow, {}, {1}, {1}, &waits, &event);
    return event;
  }

  static bool overlap(const cl::Event& a, const cl::Event& b) {
    return start(a) < end(b) && start(b) < end(a);
  }
  static cl_ulong start(const cl::Event& event) {
    return event.getProfilingInfo<CL_PROFILING_COMMAND_START>();
  }
  static cl_ulong end(const cl::Event& event) {
    return event.getProfilingInfo<CL_PROFILING_COMMAND_END>();
  }

  // How often a kernel of `other` overlapped with one of the two that `queue` runs.
  int overlaps(int tries) {
    cl::Buffer x = buffer(4), y = buffer(4);
    int count = 0;
    for (int i = 0; i < tries; ++i) {
      cl::UserEvent gate(context);
      const cl::Event first = enqueue(queue, x, 100'000, gate), second = enqueue(queue, x, 100'000);
      const cl::Event third = enqueue(other, y, 100'000, gate);
      queue.flush();
      other.flush();
      gate.setStatus(CL_COMPLETE);
      queue.finish();
      other.finish();
      EXPECT_FALSE(overlap(first, second));
      EXPECT_LE(end(first), start(second));
      count += overlap(first, third) || overlap(second, third);
    }
    return count;
  }

  cl::Kernel slow;
  cl::CommandQueue other;
};
using OverlapDeathTest = OverlapTest;

TEST_F(OverlapTest, QueuesOverlapAtTimes) {
  for (const char* seed : {"0", "1", "2"}) {
    const Setting setting("STERN_SEED", seed);
    const int count = overlaps(100);
    EXPECT_GT(count, 0);
    EXPECT_LT(count, 100);
  }
}

TEST_F(OverlapTest, OneAtATime) {
  const Setting setting("STERN_OVERLAP", "1");
  EXPECT_EQ(overlaps(50), 0);
}

TEST_F(OverlapTest, KernelsAreCompiledWhileOthersRun) {
  const Setting setting("STERN_OVERLAP", "3");
  const cl::Program program = slow.getInfo<CL_KERNEL_PROGRAM>();
  cl::Buffer x = buffer(4), y = buffer(4);
  for (cl_uint i = 1; i <= 8; ++i) {  // PoCL compiles a kernel for each size of its groups
    for (const cl::CommandQueue& each : {queue, other}) {
      slow.setArg(0, &each == &queue ? x : y);
      slow.setArg(1, cl_int{1});
      each.enqueueNDRangeKernel(slow, {}, {i * 8}, {i * 8});
      each.flush();
    }
  }
  queue.finish();
  other.finish();
}

TEST_F(OverlapDeathTest, AMapOfWhatAKernelUsesAborts) {
  cl::Buffer x = buffer(64);
  EXPECT_DEATH(
      for (int i = 0; i < 100; ++i) {
        const cl::Event running = enqueue(queue, x, 50'000'000);
        queue.flush();
        while (running.getInfo<CL_EVENT_COMMAND_EXECUTION_STATUS>() > CL_RUNNING) {
        }
        void* const p = other.enqueueMapBuffer(x, CL_TRUE, CL_MAP_WRITE, 32, 4);
        other.enqueueUnmapMemObject(x, p);
        other.finish();
        queue.finish();
      },
      "the kernel f uses a buffer of 64 bytes that is mapped for writing(.|\n)*mapped here:");
}

}  // namespace
}  // namespace stern_test
