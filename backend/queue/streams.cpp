// The streams of all devices, and waits for all streams of one.
#include <array>

#include "backend/base/error.h"
#include "backend/base/system.h"
#include "backend/program/program_cache.h"
#include "backend/queue/event.h"
#include "backend/queue/stream_slots.h"
#include "backend/queue/trace.h"
#include "backend/queue/watchdog.h"

namespace ocl {
namespace {

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

// The user's queue under an external stream.
const cl::CommandQueue& queue_of_user(const Device& device, StreamId id) {
  return streams_of(device.index()).external[id - kFirstExternal];
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
      faults_(*this) {
  if (watchdog::start()) trace::on.store(true);
}

Stream::~Stream() = default;

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
  // Skips streams under capture: the capture would record the new user's commands.
  for (int tries = 0; tries < kStreamsPerPriority; ++tries) {
    found = &stream_of_id(device, first + next.fetch_add(1) % kStreamsPerPriority);
    if (!found->captured()) break;
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
  std::vector<std::pair<Stream*, FaultReport>> reports;
  for_each_stream(index,
                  [&](Stream& stream) { reports.emplace_back(&stream, stream.faults().report()); });
  std::exception_ptr first;
  for_each_stream(index, [&](Stream& stream) {
    if (first && watchdog::is_stuck(stream.device())) return;
    if (first) return stream.drain_quietly();
    try {
      stream.drain();
    } catch (const c10::Error&) {  // an interruption ends all waits
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
    } catch (const std::exception&) {  // the process ends: there is nobody to report it to
    }
  });
}

}  // namespace ocl
