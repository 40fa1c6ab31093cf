// Captures and replays of the runtime, without operators.
#include "backend/launch/graph.h"

#include "tests/cpp/failing_calls.h"
#include "tests/cpp/support.h"

namespace ocl {
namespace {

struct GraphTest : test::DeviceTest {
  void SetUp() override {
    DeviceTest::SetUp();
    former_ = exchange_stream(stream_from_pool(GetParam(), false));
  }
  void TearDown() override {
    exchange_stream(*former_);
    DeviceTest::TearDown();
  }

  Stream& captured() { return current_stream(GetParam()); }
  c10::DataPtr memory() { return Allocator::instance().allocate(2 * sizeof(int)); }
  void fill(const c10::DataPtr& memory, int value) {
    fill_on_device(captured(), resolve(memory.get()), &value, sizeof(value), 2 * sizeof(int));
  }
  int read(const c10::DataPtr& memory) {
    int value = 0;
    copy_to_host(captured(), &value, resolve(memory.get()), sizeof(value));
    return value;
  }

  // Both hold 1. A replay copies `a` to `b`, and fills `a` with 2.
  void capture_copy_and_fill(Graph& graph, const c10::DataPtr& a, const c10::DataPtr& b) {
    fill(a, 1);
    fill(b, 1);
    graph.capture_begin();
    copy_on_device(captured(), resolve(b.get()), resolve(a.get()), sizeof(int));
    fill(a, 2);
    graph.capture_end();
  }

  std::optional<c10::Stream> former_;
};

TEST_P(GraphTest, FillsAndCopiesAreReplayedInOrder) {
  const c10::DataPtr a = memory(), b = memory();
  Graph graph;
  capture_copy_and_fill(graph, a, b);
  EXPECT_EQ(graph.size(), 2u);
  fill(a, 7);
  EXPECT_EQ(read(b), 1) << "nothing ran";
  graph.replay();
  EXPECT_EQ(read(b), 7);
  EXPECT_EQ(read(a), 2);
  graph.replay();
  EXPECT_EQ(read(b), 2);
}

// Drivers move more than 4 GiB wrongly. The graph shows the commands; nothing runs.
TEST_P(GraphTest, LargeTransfersAreSeveralCommands) {
  constexpr size_t kGiB = size_t{1} << 30;
  const c10::DataPtr small = memory();
  const BufferView view = resolve(small.get());
  char host = 0;
  cl::Event event;
  for (const auto& [bytes, parts] : {std::pair{kGiB, 1u}, {kGiB + 4, 2u}, {5 * kGiB, 5u}}) {
    Graph graph;
    graph.capture_begin();
    copy_to_device(captured(), view, &host, bytes, &event);
    copy_to_host(captured(), &host, view, bytes, &event);
    copy_on_device(captured(), view, view, bytes);
    fill_on_device(captured(), view, &host, 1, bytes);
    graph.capture_end();
    EXPECT_EQ(graph.size(), 4 * parts);
  }
}

// The runtime's own objects keep buffers alive, not tensors.
TEST_P(GraphTest, BuffersOutliveTheirBlocks) {
  Graph graph;
  graph.capture_begin();
  const c10::DataPtr kept = memory();
  {
    const c10::DataPtr gone = memory();
    fill(gone, 3);
    copy_on_device(captured(), resolve(kept.get()), resolve(gone.get()), sizeof(int));
  }
  graph.capture_end();
  Allocator::instance().emptyCache();
  graph.replay();
  EXPECT_EQ(read(kept), 3);
}

// They share the memory of the graph.
TEST_P(GraphTest, ReplaysOnTwoStreamsAreInOrder) {
  const test::SlowKernel slow(here());
  const c10::DataPtr a = memory(), b = memory();
  Graph graph;
  capture_copy_and_fill(graph, a, b);
  slow(captured(), resolve(a.get()), 7);
  graph.replay();
  const c10::Stream first = exchange_stream(stream_from_pool(GetParam(), false));
  graph.replay();
  EXPECT_EQ(read(b), 2);
  exchange_stream(first);
  captured().finish();
}

// Another stream or the host may use the memory of a table again as soon as it is released.
TEST_P(GraphTest, TablesOutliveTheReplays) {
  const test::SlowKernel slow(here());
  const c10::DataPtr out = memory();
  bool over = false;
  {
    Graph graph;
    graph.capture_begin();
    keep_in_graph(captured(),
                  std::shared_ptr<void>(nullptr, [&](void*) { over = captured().idle(); }));
    fill(out, 3);
    graph.capture_end();
    slow(captured(), resolve(out.get()), 5);
    graph.replay();
    captured().flush();
  }
  EXPECT_TRUE(over);
  EXPECT_EQ(read(out), 3);
}

TEST_P(GraphTest, ThePoolIsOnlyForItsGraph) {
  Graph graph;
  graph.capture_begin();
  void* address = memory().get();  // freed at once
  graph.capture_end();
  const c10::DataPtr outside = memory();
  EXPECT_NE(outside.get(), address);
  Graph second;
  second.capture_begin(graph.pool());
  EXPECT_EQ(memory().get(), address);
  second.capture_end();
  EXPECT_EQ(second.pool(), graph.pool());
}

TEST_P(GraphTest, APauseEnqueues) {
  const c10::DataPtr a = memory();
  fill(a, 1);
  Graph graph;
  graph.capture_begin();
  {
    const CapturePause pause(captured());
    fill(a, 5);
    EXPECT_EQ(read(a), 5);
  }
  EXPECT_TRUE(capturing());
  EXPECT_THROW(read(a), c10::Error);
  EXPECT_THROW(graph.capture_end(), c10::Error);
  EXPECT_FALSE(capturing());
  EXPECT_EQ(read(a), 5);
}

// Commands of a replay are held back while they are enqueued (Gate in graph.cpp), and a command
// that lacks memory waits for the device. This hung.
TEST_P(GraphTest, MemoryRunsOutInAReplay) {
  const c10::DataPtr a = memory();
  Graph graph;
  graph.capture_begin();
  for (int i = 1; i <= 20; ++i) fill(a, i);
  graph.capture_end();
  graph.replay();
  fill(a, 0);
  test::fail_fills(1);
  graph.replay();
  test::fail_fills(0);
  EXPECT_EQ(read(a), 20);
}

TEST_P(GraphTest, EventsJoinStreams) {
  Stream& side = stream(stream_from_pool(GetParam(), false));
  Graph graph;
  graph.capture_begin();
  Event event;
  event.record(captured());
  EXPECT_TRUE(event.recorded());
  event.block(side);
  EXPECT_EQ(side.capture(), captured().capture());
  EXPECT_THROW(event.block(default_stream(GetParam())), c10::Error);
  graph.reset();
  EXPECT_EQ(side.capture(), nullptr);
  EXPECT_THROW(event.synchronize(), c10::Error);
  side.finish();
}

// Its new user's commands would be recorded.
TEST_P(GraphTest, ThePoolSkipsCapturedStreams) {
  Graph graph;
  graph.capture_begin();
  for (int i = 0; i < kStreamsPerPriority; ++i) {
    EXPECT_EQ(stream(stream_from_pool(GetParam(), false)).capture(), nullptr) << i;
  }
}

TEST_P(GraphTest, EndsOnItsStream) {
  Graph graph;
  graph.capture_begin();
  Stream& origin = captured();
  const c10::Stream before = exchange_stream(stream_from_pool(GetParam(), false));
  EXPECT_THROW(graph.capture_end(), c10::Error);
  EXPECT_EQ(origin.capture(), nullptr);
  exchange_stream(before);
}

OCL_ON_EVERY_DEVICE(GraphTest);

}  // namespace
}  // namespace ocl
