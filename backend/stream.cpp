#include "backend/stream.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "backend/capture.h"
#include "backend/error.h"
#include "backend/event.h"
#include "backend/fault.h"
#include "backend/interop.h"
#include "backend/program_cache.h"
#include "backend/stream_slots.h"
#include "backend/synchronize.h"
#include "backend/system.h"
#include "backend/trace.h"
#include "backend/watchdog.h"

namespace ocl {
namespace {

// Commands between two flushes: a flush costs a system call on some drivers and nothing on others.
constexpr uint64_t kFlushInterval = 8;

// A stream has up to twice as many unfinished commands. Waiting for thousands costs nothing: the
// device has work for longer than the host needs to go on.
constexpr uint64_t kDepthInterval = 2048;

using AllStreams = std::array<DeviceStreams, kMaxDevices>;

// Leaked, like the devices. A forked process finds no stream: asking for one raises there.
AllStreams& all_streams() {
  static auto* const all = [] {
    static AllStreams* made = nullptr;
    made = new AllStreams;
    after_fork([] {
      for (DeviceStreams& streams : *made) {
        for (auto& slot : streams.slots) slot.store(nullptr, std::memory_order_relaxed);
      }
    });
    return made;
  }();
  return *all;
}

}  // namespace

DeviceStreams& streams_of(DeviceIndex device) {
  TORCH_CHECK(device >= 0 && static_cast<size_t>(device) < kMaxDevices,
              "ocl:", static_cast<int>(device), " is beyond the ", kMaxDevices,
              " devices that one process can use; select some with OCL_VISIBLE_DEVICES");
  return all_streams()[device];
}

Stream& stream_of_id(DeviceIndex index, StreamId id) {
  TORCH_CHECK_VALUE(id >= 0 && static_cast<size_t>(id) < kSlots, "ocl has no stream with id ", id);
  DeviceStreams& streams = streams_of(index);
  Stream* found = streams.slots[id].load(std::memory_order_acquire);
  if (C10_LIKELY(found != nullptr)) return *found;
  refuse_fork();
  std::lock_guard lock(streams.mutex);
  found = streams.slots[id].load(std::memory_order_acquire);
  if (!found) {
    TORCH_CHECK_VALUE(static_cast<size_t>(id) < kFirstExternal + streams.external.size(),
                      "ocl has no stream with id ", id);
    found = translated([&] { return str("cannot make a stream on ", device(index).label()); },
                       [&] { return new Stream(device(index), id); });
    streams.slots[id].store(found, std::memory_order_release);
  }
  return *found;
}

namespace {

// The user's queue of an external stream.
const cl::CommandQueue& queue_of_user(const Device& device, StreamId id) {
  return streams_of(device.index()).external[id - kFirstExternal];
}

void check(cl_int code, const char* function) {
  if (code != CL_SUCCESS) throw cl::Error(code, function);
}

thread_local std::array<StreamId, kMaxDevices> current_ids{};

}  // namespace

bool high_priority(StreamId id) noexcept {
  return id > kStreamsPerPriority && static_cast<size_t>(id) < kFirstStaging;
}

Stream::Stream(Device& device, StreamId id)
    : device_(device),
      id_(id),
      queue_(external() ? CommandQueue(device, queue_of_user(device, id))
                        : CommandQueue(device, high_priority(id))),
      shared_(external()),
      faults_(std::make_unique<FaultWord>(*this)) {
  watchdog::start();
}

Stream::~Stream() = default;

c10::Stream Stream::unpack() const {
  return c10::Stream(c10::Stream::UNSAFE,
                     c10::Device(c10::DeviceType::PrivateUse1, device_.index()), id_);
}

void Stream::submitted() {
  const uint64_t before = commands_.fetch_add(1, std::memory_order_relaxed);
  if (before % kFlushInterval == 0) flush();
  if (C10_UNLIKELY(too_deep(before))) limit_depth(before);
}

void Stream::submitted(uint64_t commands) {
  const uint64_t before = commands_.fetch_add(commands, std::memory_order_relaxed);
  flush();
  if (C10_UNLIKELY(too_deep(before))) limit_depth(before);
}

bool Stream::too_deep(uint64_t commands) const {
  // Signed: another thread may have set a later mark.
  return static_cast<int64_t>(commands - depth_at_.load(std::memory_order_relaxed)) >=
         static_cast<int64_t>(kDepthInterval);
}

// Records a mark, and waits for the mark before it.
void Stream::limit_depth(uint64_t commands) {
  auto mark = std::make_unique<Event>();
  {
    std::lock_guard lock(depth_mutex_);
    if (!too_deep(commands)) return;  // another thread was faster
    mark->record_enqueued(*this);
    depth_at_.store(commands, std::memory_order_relaxed);
    std::swap(mark, depth_mark_);
  }
  if (mark && !mark->over()) wait_unlocked([&] { mark->help_until_over(); });
}

void Stream::flush() {
  const cl_int code = clFlush(queue()());
  if (code != CL_SUCCESS) raise(code, str("cannot flush a queue of ", device_.label()), "clFlush");
}

// The code of a failure, which is told once.
cl_int Stream::wait() {
  const uint64_t commands = commands_.load(std::memory_order_relaxed);
  cl_int code;
  {
    trace::Call call(*this, trace::Kind::kWait, "clFinish");
    code = queue_.finish();
  }
  const cl_int noted = failure_.exchange(CL_SUCCESS, std::memory_order_relaxed);
  if (code == CL_SUCCESS) code = noted;
  (code == CL_SUCCESS ? finished_ : told_).store(commands, std::memory_order_relaxed);
  return code;
}

void Stream::drain() {
  watchdog::watch(*this);
  const cl_int code = wait();
  if (code != CL_SUCCESS) {
    raise(code, str("a command on ", device_.label(), " failed"), "clFinish");
  }
}

void Stream::drain_quietly() noexcept {
  if (!watchdog::ends(*this)) return;
  const cl_int code = wait();
  if (code != CL_SUCCESS) note_failure(code);
}

void Stream::raise_captured(std::string_view what) const { capture()->refuse(what); }

void Stream::finish() {
  refuse_capture("wait for a stream");
  const uint64_t report = faults_->report();
  drain();
  store_programs();
  faults_->raise_reported(report);
  raise_failures_of_others();
}

bool Stream::idle() {
  refuse_capture("query a stream");
  // Also in an idle queue, a new marker takes the driver a moment.
  constexpr std::chrono::milliseconds kMarkerTime{1};
  const bool shared = shared_.load(std::memory_order_relaxed);
  const cl_int status = last_status(shared ? kMarkerTime : std::chrono::milliseconds(0));
  if (status < 0) raise(status, str("a command on ", device_.label(), " failed"), "the device");
  return status == CL_COMPLETE;
}

// The status of the last command, as soon as it is complete, else after `patience`.
cl_int Stream::last_status(std::chrono::milliseconds patience) {
  const uint64_t commands = commands_.load(std::memory_order_relaxed);
  const bool shared = shared_.load(std::memory_order_relaxed);
  if (!shared && commands == finished_.load(std::memory_order_relaxed)) return CL_COMPLETE;
  cl::Event last;
  if (!shared) {
    std::lock_guard lock(marker_mutex_);
    if (marked_commands_ == commands) last = last_marker_;
  }
  if (!last()) last = marker();
  const auto read = [&] {
    return translated([&] { return str("cannot query ", device_.label()); },
                      [&] { return last.getInfo<CL_EVENT_COMMAND_EXECUTION_STATUS>(); });
  };
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kAwake{1};
  constexpr std::chrono::microseconds kSleep{200};
  auto status = read();
  for (const auto begin = Clock::now(); status > CL_COMPLETE; status = read()) {
    const auto waited = Clock::now() - begin;
    if (waited >= patience) break;
    if (waited > kAwake) std::this_thread::sleep_for(kSleep);  // a CPU's runtime needs the core
  }
  return status;
}

void Stream::wait_for(Stream& source) {
  const uint64_t report = source.capture() ? 0 : source.faults().report();
  const uint64_t work = source.work();
  wait_for(source.marker(), source, work, report);
}

void Stream::wait_for(const cl::Event& event, Stream& source, uint64_t work, uint64_t report) {
  refuse_capture("wait for commands from before the capture or from a stream outside of it");
  note_source(source, work, report);
  translated([&] { return str("cannot wait for an event of ", source.device_.label()); },
             [&] {
               if (&source.device_ == &device_) {
                 check(enqueue([&](cl_command_queue queue) {
                         return clEnqueueBarrierWithWaitList(queue, 1, &event(), nullptr);
                       }),
                       "clEnqueueBarrierWithWaitList");
                 submitted();
               } else {
                 // Each device has its own context, and OpenCL cannot wait across contexts.
                 wait_unlocked([&] {
                   watchdog::watch(source, event);
                   event.wait();
                 });
               }
             });
}

// Drivers tell no times of markers, or wrong ones
// (https://github.com/CHIP-SPV/chipStar/issues/1549, https://github.com/fixstars/clpy/issues/216).
// So a timed one is a small fill.
void Stream::enqueue_marker(cl::Event& event, bool timed) {
  if (!timed) {
    return check(enqueue([&](cl_command_queue queue) {
                   return clEnqueueMarkerWithWaitList(queue, 0, nullptr, &event());
                 }),
                 "clEnqueueMarkerWithWaitList");
  }
  const cl_int zero = 0;
  if (!scratch_()) scratch_ = cl::Buffer(device_.context(), CL_MEM_READ_WRITE, sizeof(zero));
  check(enqueue([&](cl_command_queue queue) {
          return clEnqueueFillBuffer(queue, scratch_(), &zero, sizeof(zero), 0, sizeof(zero), 0,
                                     nullptr, &event());
        }),
        "clEnqueueFillBuffer");
}

cl::Event Stream::marker(bool timed) {
  return translated([&] { return str("cannot record an event on ", device_.label()); },
                    [&] {
                      cl::Event event;
                      std::lock_guard lock(marker_mutex_);
                      // Read first: commands that other threads enqueue meanwhile are not marked.
                      const uint64_t before = commands_.load(std::memory_order_relaxed);
                      enqueue_marker(event, timed);
                      cl::Event kept(event);  // a failure leaves last_marker_ as it was
                      last_marker_ = std::move(kept);
                      marked_commands_ = before + 1;
                      commands_.fetch_add(1, std::memory_order_relaxed);
                      marks_.fetch_add(1, std::memory_order_release);  // see work()
                      flush();
                      return event;
                    });
}

Stream& stream(c10::Stream stream) {
  TORCH_CHECK_VALUE(stream.device_type() == c10::DeviceType::PrivateUse1,
                    "expected a stream of ocl, got one of ", stream.device());
  return stream_of_id(stream.device_index(), stream.id());
}

Stream& default_stream(DeviceIndex device) { return stream_of_id(device, 0); }

Stream& current_stream(DeviceIndex device) {
  return stream_of_id(device, static_cast<size_t>(device) < kMaxDevices ? current_ids[device] : 0);
}

c10::Stream stream_from_pool(DeviceIndex device, bool high_priority) {
  std::atomic<uint32_t>& next = streams_of(device).next[high_priority];
  const StreamId first = 1 + (high_priority ? kStreamsPerPriority : 0);
  Stream* found = nullptr;
  // Commands of another user would be recorded by a capture.
  for (int tries = 0; tries < kStreamsPerPriority; ++tries) {
    found = &stream_of_id(device, first + next.fetch_add(1) % kStreamsPerPriority);
    if (!found->capture()) break;
  }
  return found->unpack();
}

c10::Stream staging_stream(DeviceIndex device) {
  const uint32_t next = streams_of(device).next_staging.fetch_add(1);
  return stream_of_id(device, static_cast<StreamId>(kFirstStaging + next % kStagingStreams))
      .unpack();
}

c10::Stream exchange_stream(c10::Stream stream) {
  Stream& former = current_stream(stream.device_index());
  current_ids[stream.device_index()] = ocl::stream(stream).id();
  return former.unpack();
}

namespace {

template <typename Body>
void for_each_stream(DeviceIndex index, Body&& body) {
  for (const auto& slot : streams_of(index).slots) {
    if (Stream* each = slot.load(std::memory_order_acquire)) body(*each);
  }
}

std::atomic<void (*)(DeviceIndex)> synchronize_hook{nullptr};

void begin_synchronize(DeviceIndex index) {
  device(index);  // checks the index
  current_stream(index).refuse_capture("synchronize the device");
  if (const auto hook = synchronize_hook.load()) hook(index);
}

}  // namespace

void before_synchronize(void (*hook)(DeviceIndex)) noexcept { synchronize_hook = hook; }

void synchronize(DeviceIndex index) {
  begin_synchronize(index);
  std::vector<std::pair<Stream*, uint64_t>> reports;
  for_each_stream(index, [&](Stream& stream) {
    // A stream that another thread captures has nothing enqueued.
    if (!stream.capture()) reports.emplace_back(&stream, stream.faults().report());
  });
  std::exception_ptr first;
  for_each_stream(index, [&](Stream& stream) {
    if (first && watchdog::is_stuck(stream.device())) return;
    if (first) return stream.drain_quietly();
    try {
      stream.drain();
    } catch (const c10::Error&) {  // an interruption ends all of the waits
      first = std::current_exception();
    }
  });
  if (first) std::rethrow_exception(first);
  store_programs();
  for (const auto& [stream, report] : reports) stream->faults().raise_reported(report);
}

void synchronize_quietly(DeviceIndex index) {
  begin_synchronize(index);
  for_each_stream(index, [](Stream& stream) {
    watchdog::watch(stream);
    stream.drain_quietly();
  });
}

void drain(DeviceIndex index) noexcept {
  for_each_stream(index, [](Stream& stream) { stream.drain_quietly(); });
}

void wait_for_commands_so_far(DeviceIndex index) noexcept {
  for_each_stream(index, [](Stream& stream) {
    if (stream.external() || watchdog::is_stuck(stream.device())) return;
    try {
      Event mark;
      mark.record_enqueued(stream);
      mark.wait_until_over();          // not clWaitForEvents(): Quirk::kWaitRunsCommands
    } catch (const std::exception&) {  // the process ends: nobody is left to be told
    }
  });
}

}  // namespace ocl
