// The recorder of torch.profiler's commands, and the clocks.
#include "backend/queue/trace.h"

#include <thread>

#include "backend/queue/device_clock.h"
#include "tests/cpp/support.h"

namespace ocl {
namespace {

using trace::Kind;

struct TraceTest : test::DeviceTest {
  void TearDown() override {
    trace::stop();
    DeviceTest::TearDown();
  }
  c10::DataPtr memory() { return Allocator::instance().allocate(64); }
};

// Nothing is synchronised here: stop() waits by itself.
TEST_P(TraceTest, StopWaitsForWhatIsInFlight) {
  const test::SlowKernel slow(here());
  const c10::DataPtr out = memory();
  Stream& stream = current_stream(GetParam());
  slow(stream, resolve(out.get()), 1);  // in flight at the start: not recorded
  const int64_t before = c10::getTime();
  trace::start({.calls = true, .device_times = true});
  slow(stream, resolve(out.get()), 2);
  const auto commands = trace::stop();
  const int64_t after = c10::getTime();
  ASSERT_EQ(commands.size(), 1);
  const trace::Command& command = commands[0];
  EXPECT_EQ(command.kind, Kind::kKernel);
  EXPECT_EQ(*command.kernel, "slow");
  EXPECT_EQ(command.device, GetParam());
  constexpr int64_t kClocks = 100'000;  // nanoseconds between the two clocks of the host
  EXPECT_LE(before - kClocks, command.called);
  EXPECT_LE(command.called, command.returned);
  EXPECT_LE(command.called, command.started);
  EXPECT_LT(command.started, command.ended);
  if (DeviceClock clock(here()); (clock.add_reading(), clock.runs())) {
    EXPECT_LE(command.ended, after + kClocks);
    EXPECT_GT(command.ended - command.started, 1'000'000);
  }
  EXPECT_TRUE(trace::stop().empty());
}

TEST_P(TraceTest, CallsAloneNeedNoEvents) {
  const c10::DataPtr out = memory();
  trace::start({.calls = true, .device_times = false});
  const int value = 7;
  copy_to_device(current_stream(GetParam()), resolve(out.get()), &value, sizeof(value));
  auto commands = trace::stop();
  EXPECT_EQ(commands.back().kind, Kind::kWait);
  std::erase_if(commands, [](const auto& each) { return each.kind == Kind::kWait; });
  ASSERT_EQ(commands.size(), 1);
  EXPECT_EQ(commands[0].kind, Kind::kCopyToDevice);
  EXPECT_EQ(commands[0].bytes, sizeof(value));
  EXPECT_EQ(commands[0].ended, 0);
}

TEST_P(TraceTest, FailedCallsAreNotRecorded) {
  const c10::DataPtr out = memory();
  const BufferView view = resolve(out.get());
  trace::start({.calls = true, .device_times = true});
  const char pattern = 0;
  // Beyond the end of the buffer.
  EXPECT_THROW(fill_on_device(current_stream(GetParam()), view, &pattern, 1, size_t{1} << 50),
               c10::Error);
  EXPECT_TRUE(trace::stop().empty());
}

// Beyond 65536 commands, times are read and events released while the trace runs.
TEST_P(TraceTest, MoreCommandsThanEventsAreKept) {
  if (here().properties().platform.find("Oclgrind") != std::string::npos) {
    GTEST_SKIP() << "a simulator is too slow for it";
  }
  const c10::DataPtr out = memory();
  const BufferView view = resolve(out.get());
  Stream& stream = current_stream(GetParam());
  const char pattern = 0;
  constexpr int kCommands = 66'000;
  trace::start({.calls = true, .device_times = true});
  for (int i = 0; i < kCommands; ++i) fill_on_device(stream, view, &pattern, 1, 1);
  const auto commands = trace::stop();
  int with_times = 0;
  for (const auto& command : commands) with_times += command.kind == Kind::kFill && command.ended;
  EXPECT_EQ(with_times, kCommands);
}

TEST_P(TraceTest, AStreamWithoutProfilingGetsIt) {
  const c10::DataPtr out = memory();
  const char pattern = 0;
  const test::Variable variable("OCL_PROFILING", "0");
  Stream stream(here(), 0);
  const auto times = [&] {
    fill_on_device(stream, resolve(out.get()), &pattern, 1, 1);
    const auto commands = trace::stop();
    EXPECT_EQ(commands.size(), 1);
    return commands[0].ended > 0;
  };
  trace::start({.calls = true, .device_times = false});
  EXPECT_FALSE(times());
  EXPECT_FALSE(stream.queue().getInfo<CL_QUEUE_PROPERTIES>() & CL_QUEUE_PROFILING_ENABLE);
  trace::start({.calls = true, .device_times = true});
  EXPECT_TRUE(times());
  stream.finish();
}

TEST_P(TraceTest, ScopesAreOfTheThreadAndTheTrace) {
  const c10::DataPtr out = memory();
  const BufferView view = resolve(out.get());
  Stream& stream = current_stream(GetParam());
  const char pattern = 0;
  const auto fill = [&] { fill_on_device(stream, view, &pattern, 1, 1); };
  trace::start({.calls = true, .device_times = false});
  trace::push(trace::Scope::kOp, 3);
  trace::push(trace::Scope::kAnnotation, 4);
  trace::push(trace::Scope::kOp, 5);
  fill();
  trace::pop(trace::Scope::kOp);
  fill();
  std::thread(fill).join();
  auto commands = trace::stop();
  ASSERT_EQ(commands.size(), 3);
  EXPECT_EQ(commands[0].op, 5);
  EXPECT_EQ(commands[1].op, 3);
  EXPECT_EQ(commands[1].annotation, 4);
  EXPECT_EQ(commands[2].op, 0);
  EXPECT_NE(commands[2].thread, commands[0].thread);
  trace::start({.calls = true, .device_times = false});
  fill();
  commands = trace::stop();
  ASSERT_EQ(commands.size(), 1);
  EXPECT_EQ(commands[0].op, 0);
}

TEST_P(TraceTest, ClockFollowsTheHost) {
  DeviceClock clock(here());
  std::this_thread::sleep_for(std::chrono::milliseconds(120));
  clock.add_reading();
  if (!clock.runs()) GTEST_SKIP() << "the device has no clock";
  Stream& stream = current_stream(GetParam());
  stream.enable_times();
  const int64_t before = c10::getTime();
  const cl::Event event = stream.marker();
  event.wait();
  const int64_t after = c10::getTime();
  const auto ended = event.getProfilingInfo<CL_PROFILING_COMMAND_END>();
  constexpr int64_t kError = 200'000;
  EXPECT_GE(clock.to_host(ended), before - kError);
  EXPECT_LE(clock.to_host(ended), after + kError);
  clock.started_after(ended, clock.to_host(ended) + 1000);
  EXPECT_GE(clock.to_host(ended), before - kError + 1000);
  const int64_t corrected = clock.to_host(ended);
  clock.started_after(ended, corrected + 1'000'000'000);  // nonsense
  EXPECT_EQ(clock.to_host(ended), corrected);
}

OCL_ON_EVERY_DEVICE(TraceTest);

}  // namespace
}  // namespace ocl
