#include "backend/launch/graph.h"

#include "backend/base/error.h"
#include "backend/base/unlocked_wait.h"
#include "backend/launch/launch.h"
#include "backend/memory/allocator.h"
#include "backend/queue/command_sink.h"
#include "backend/queue/watchdog.h"

namespace ocl {
namespace {

// The most commands per gate, so that a device does not wait long for its first command.
constexpr size_t kGateInterval = 256;
// With fewer commands than this, a gate costs more than it saves.
constexpr size_t kLeastGated = 8;

// Holds back commands that are enqueued while it lives; they start when it is destroyed. On CPU
// devices, threads that run commands compete with the enqueueing thread for the runtime's locks and
// for the processor. With a gate, 200 small kernels take 0.65 us each to enqueue on PoCL, not 1.6,
// and 1.6 us to complete, not 2.4. On Intel's runtime it is 1.1 and 1.7 us, not 2.3 and 2.4.
class Gate {
 public:
  explicit Gate(Stream& stream) {
    cl_int code = CL_SUCCESS;
    cl::Event event(clCreateUserEvent(stream.device().context()(), &code));
    if (code != CL_SUCCESS) return;  // replay without a gate
    event_ = std::move(event);
    try {
      code = stream.enqueue([&](cl_command_queue queue) {
        return clEnqueueBarrierWithWaitList(queue, 1, &event_(), nullptr);
      });
    } catch (...) {
      open();
      throw;
    }
    if (code != CL_SUCCESS) open();
  }
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Must be called before a wait for the stream, which would not end otherwise.
  void open() {
    const cl::Event opened(std::move(event_));  // assigning throws if a release fails
    if (!opened()) return;
    if (clSetUserEventStatus(opened(), CL_COMPLETE) != CL_SUCCESS) {
      clSetUserEventStatus(opened(), CL_COMPLETE);  // else the stream waits forever
    }
  }

 private:
  cl::Event event_;
};

class FaultsAfter {
 public:
  FaultsAfter(Stream& stream, bool any) : stream_(stream), any_(any) {}
  ~FaultsAfter() {
    if (any_) stream_.faults().enqueued();
  }
  FaultsAfter(const FaultsAfter&) = delete;
  FaultsAfter& operator=(const FaultsAfter&) = delete;

 private:
  Stream& stream_;
  const bool any_;
};

// `gate`: the gate that holds the command back, or nullptr.
void enqueue(Stream& stream, const RecordedCommand& command, Gate* gate) {
  const auto body = [&](cl_command_queue queue, cl_event* event) {
    const cl_int code = command.enqueue(queue, event);
    // Where memory ran out, enqueue_with_memory() waits for the stream.
    if (C10_UNLIKELY(code != CL_SUCCESS && gate != nullptr)) gate->open();
    return code;
  };
  enqueue_command(stream, command, body, [&] {
    return str("cannot replay ", command.kernel ? *command.kernel : command.function, " on ",
               stream.device().label());
  });
}

}  // namespace

Graph::~Graph() {
  if (in_bad_fork()) {
    // Leaked, because a forked process can release nothing.
    // NOLINTBEGIN(bugprone-unhandled-exception-at-new): without memory the child ends anyway
    new Recording(capture_ ? capture_->take() : Recording());
    new Recording(std::move(recording_));
    // NOLINTEND(bugprone-unhandled-exception-at-new)
    return;
  }
  try {
    reset();
  } catch (const std::exception& error) {
    TORCH_WARN("ocl: ", error.what());
  }
}

void Graph::capture_begin(uint64_t pool) {
  refuse_fork();
  TORCH_CHECK(pool_ == 0,
              "this graph has been captured, or is being captured; call reset() to capture again");
  const DeviceIndex index = current_device();
  const uint64_t chosen = pool ? pool : Allocator::new_pool();
  device_ = &device(index);
  capture_.emplace(current_stream(index), chosen);
  try {
    Allocator::instance().add_pool_user(chosen, index);
  } catch (...) {
    capture_.reset();
    throw;
  }
  pool_ = chosen;
}

void Graph::capture_end() {
  refuse_fork();
  TORCH_CHECK(capture_, "capture_end() without a capture_begin()");
  const bool same = &current_stream(device_->index()) == &capture_->origin();
  const std::string refused = capture_->refused();
  recording_ = capture_->take();
  capture_.reset();
  if (!same || !refused.empty()) {
    reset();
    TORCH_CHECK(same, "a capture must end on the stream that it began on; the graph is empty now");
    TORCH_CHECK(false, "the graph was not captured, and is empty now: ", refused);
  }
  for (const RecordedCommand& command : recording_.commands) {
    if (!command.kernel) continue;
    last_ = command.kernel;
    ++kernels_;
  }
  if (!keep_) instantiate();
}

void Graph::instantiate() {
  TORCH_CHECK(captured(), "a graph must be captured before it can be instantiated");
  instantiated_ = true;
}

void Graph::bind_fault_words(Stream& stream) {
  if (recording_.faults.empty()) return;
  const cl_mem word = stream.faults().word();
  if (word == fault_word_) return;
  fault_word_ = nullptr;  // if binding throws, the next replay binds all words again
  for (const auto& [kernel, index] : recording_.faults) {
    const cl_int code = clSetKernelArg(kernel, index, sizeof(word), &word);
    if (code != CL_SUCCESS)
      raise(code, "cannot bind the word in which a graph's kernels report errors",
            "clSetKernelArg");
  }
  fault_word_ = word;
}

void Graph::enqueue_all(Stream& stream) {
  const auto& commands = recording_.commands;
  const bool gated = device_->properties().type == "cpu" && commands.size() >= kLeastGated;
  for (size_t begin = 0; begin < commands.size(); begin += kGateInterval) {
    std::optional<Gate> gate;
    if (gated) gate.emplace(stream);
    const size_t end = std::min(commands.size(), begin + kGateInterval);
    size_t i = begin;
    try {
      while (i < end) {
        const RecordedCommand& command = commands[i];
        enqueue(stream, command, gate ? &*gate : nullptr);
        ++i;
        if (command.flush) stream.flush();
      }
    } catch (...) {
      gate.reset();
      stream.submitted(i - begin);
      throw;
    }
    gate.reset();
    stream.submitted(end - begin);
  }
}

// The first replay: kernels that were never launched may need the device alone
// (Quirk::kFirstLaunchAlone).
void Graph::enqueue_alone(Stream& stream) {
  for (const RecordedCommand& command : recording_.commands) {
    const auto now = [&] { enqueue(stream, command, nullptr); };
    command.first ? launch_first(*device_, *command.program, command.launched, now) : now();
    stream.submitted(1);
  }
}

void Graph::replay() {
  refuse_fork();
  std::lock_guard lock(mutex_);
  TORCH_CHECK(captured(), "a graph must be captured before it can be replayed");
  Stream& stream = current_stream(device_->index());
  stream.refuse_capture("replay a graph");
  if (!instantiated_) instantiate();
  for (const auto& hook : recording_.hooks) hook();
  bind_fault_words(stream);
  // Replays share the graph's memory, so each waits for the one before it, as in CUDA.
  if (last_stream_ && last_stream_ != &stream) {
    stream.wait_for(*last_stream_);
  }
  last_stream_ = &stream;
  // A destructor marks the end, so that this also happens when only some commands could be
  // enqueued.
  const FaultsAfter faults(stream, !recording_.faults.empty());
  replayed_ ? enqueue_all(stream) : enqueue_alone(stream);
  replayed_ = true;
  if (kernels_) count_launches(stream, *last_, kernels_);
}

void Graph::leave_pool() {
  if (pool_) Allocator::instance().remove_pool_user(pool_, device_->index());
  pool_ = 0;
}

void Graph::reset() {
  refuse_fork();
  std::lock_guard lock(mutex_);
  capture_.reset();
  // After the reset, other streams or the host may reuse the memory of tables and host tensors.
  if (last_stream_ && !recording_.kept.empty()) {
    wait_unlocked([&] { last_stream_->drain_quietly(); });
  }
  if (device_ && watchdog::is_stuck(*device_)) {
    new Recording(std::move(recording_));  // leaked, because the device may still use it
  }
  last_stream_ = nullptr;
  recording_ = {};
  instantiated_ = replayed_ = false;
  kernels_ = 0;
  fault_word_ = nullptr;
  leave_pool();
}

uint64_t Graph::pool() const {
  TORCH_CHECK(pool_ != 0, "a graph has a memory pool from capture_begin() on");
  return pool_;
}

std::string Graph::describe() const {
  std::string text;
  const auto size = [](const std::array<size_t, 3>& n) { return str(n[0], "x", n[1], "x", n[2]); };
  for (const RecordedCommand& command : recording_.commands) {
    text += command.kernel ? str(*command.kernel, " ", size(command.global), " in groups of ",
                                 size(command.local), "\n")
                           : str(command.function, " of ", command.bytes, " bytes\n");
  }
  return text;
}

bool capturing() { return initialized() && current_stream(current_device()).captured(); }

}  // namespace ocl
