// Failures on demand, and what a program can ask the layer for while it runs.
#include <dlfcn.h>

#include "tests/stern/failure.h"
#include "tests/stern/test_support.h"

namespace stern_test {
namespace {

using FailureTest = SternTest;
using FailureDeathTest = SternTest;

// A function that the layer exports.
template <typename Function>
Function* exported(const char* name) {
  void* const layer = dlopen(STERN_LAYER, RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<Function*>(dlsym(layer, name));
}
const auto fail = [](const char* list) {
  return exported<decltype(stern_fail)>("stern_fail")(list);
};
const auto calls = [](const char* entry) {
  return exported<decltype(stern_calls)>("stern_calls")(entry);
};
const auto failed = [] { return exported<decltype(stern_failed)>("stern_failed")(); };
const auto alive = [](const char* objects) {
  return exported<decltype(stern_alive)>("stern_alive")(objects);
};

TEST_F(FailureTest, FailuresOnDemand) {
  cl::Kernel nothing = kernel("kernel void f() {}");
  {
    const Setting fail("STERN_FAIL", "clEnqueueNDRangeKernel:2:-5,clFlush:1:-6");
    EXPECT_EQ(launch(nothing, {8}, {8}), CL_SUCCESS);
    EXPECT_EQ(launch(nothing, {8}, {8}), CL_OUT_OF_RESOURCES);
    EXPECT_EQ(launch(nothing, {8}, {8}), CL_SUCCESS);
    EXPECT_EQ(code_of([&] { queue.flush(); }), CL_OUT_OF_HOST_MEMORY);
    queue.finish();
  }
  const Setting fail("STERN_FAIL", "execution:1:-5");
  cl::Event event;
  queue.enqueueNDRangeKernel(nothing, {}, {8}, {8}, nullptr, &event);
  EXPECT_EQ(code_of([&] { event.wait(); }), CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
  EXPECT_EQ(event.getInfo<CL_EVENT_COMMAND_EXECUTION_STATUS>(), CL_OUT_OF_RESOURCES);
  EXPECT_EQ(code_of([&] { queue.finish(); }), CL_OUT_OF_RESOURCES);
}

TEST_F(FailureTest, AllLaterCallsFail) {
  const Setting setting("STERN_FAIL", "clFlush:2+:-36");
  EXPECT_EQ(code_of([&] { queue.flush(); }), CL_SUCCESS);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(code_of([&] { queue.flush(); }), CL_INVALID_COMMAND_QUEUE);
  }
}

TEST_F(FailureTest, ChangeWhileAProgramRuns) {
  ASSERT_TRUE(fail("clFlush:1:-5"));
  EXPECT_EQ(code_of([&] { queue.flush(); }), CL_OUT_OF_RESOURCES);
  EXPECT_EQ(code_of([&] { queue.flush(); }), CL_SUCCESS);
  EXPECT_EQ(calls("clFlush"), 2u);
  EXPECT_EQ(calls("clFinish"), 0u);
  EXPECT_EQ(failed(), 1u);
  EXPECT_FALSE(fail("clFlush:0:-5"));
  EXPECT_FALSE(fail("clFlush:1:5"));
  EXPECT_FALSE(fail("clNothing:1:-5"));
  EXPECT_EQ(calls("clFlush"), 2u);
  ASSERT_TRUE(fail(""));
  EXPECT_EQ(calls("clFlush"), 0u);
  EXPECT_EQ(failed(), 0u);
  EXPECT_EQ(code_of([&] { queue.flush(); }), CL_SUCCESS);
}

TEST_F(FailureTest, ObjectsAlive) {
  const auto before = alive("buffers");
  EXPECT_EQ(alive("contexts"), 1u);
  EXPECT_EQ(alive("maps"), 0u);
  {
    cl::Buffer x = buffer(64);
    EXPECT_EQ(alive("buffers"), before + 1);
    void* const p = queue.enqueueMapBuffer(x, CL_TRUE, CL_MAP_WRITE, 0, 32);
    EXPECT_EQ(alive("maps"), 1u);
    queue.enqueueUnmapMemObject(x, p);
    queue.finish();
    EXPECT_EQ(alive("maps"), 0u);
  }
  EXPECT_EQ(alive("buffers"), before);
}

TEST_F(FailureDeathTest, CountsCallsAtExit) {
  EXPECT_EXIT(
      {
        setenv("STERN_COUNT", "1", 1);
        fail("");
        for (int i = 0; i < 3; ++i) queue.flush();
        std::exit(0);
      },
      testing::ExitedWithCode(0), "calls: clFlush 3\n");
}

}  // namespace
}  // namespace stern_test
