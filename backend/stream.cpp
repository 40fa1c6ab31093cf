#include "backend/stream.h"

#include <array>
#include <deque>

#include "backend/error.h"
#include "backend/fault.h"
#include "backend/program_cache.h"
#include "backend/trace.h"

namespace ocl {
namespace {

// Commands between two flushes: a flush costs a system call on some drivers and nothing on others.
constexpr uint64_t kFlushInterval = 8;

constexpr size_t kSlots = 1 + 2 * kStreamsPerPriority;  // default, low priority, high priority
constexpr size_t kMaxDevices = 64;

struct DeviceStreams {
  std::mutex mutex;
  std::array<std::atomic<Stream*>, kSlots> slots{};
  std::array<std::atomic<uint32_t>, 2> next{};
};

// Leaked, like the devices.
DeviceStreams& streams_of(DeviceIndex device) {
  static auto* const all = new std::array<DeviceStreams, kMaxDevices>;
  TORCH_CHECK(device >= 0 && static_cast<size_t>(device) < kMaxDevices,
              "ocl:", static_cast<int>(device), " is beyond the ", kMaxDevices,
              " devices that one process can use; select some with OCL_VISIBLE_DEVICES");
  return (*all)[device];
}

Stream& slot(DeviceIndex index, StreamId id) {
  TORCH_CHECK_VALUE(id >= 0 && static_cast<size_t>(id) < kSlots, "ocl has no stream with id ", id);
  DeviceStreams& streams = streams_of(index);
  Stream* found = streams.slots[id].load(std::memory_order_acquire);
  if (C10_LIKELY(found != nullptr)) return *found;
  std::lock_guard lock(streams.mutex);
  found = streams.slots[id].load(std::memory_order_acquire);
  if (!found) {
    found = new Stream(device(index), id);
    streams.slots[id].store(found, std::memory_order_release);
  }
  return *found;
}

// Priorities need an entry point of OpenCL 2.0 and an extension; without them the stream is an
// ordinary one, as CUDA does on devices without priorities.
cl::CommandQueue create_queue(Device& device, bool prioritised) {
  constexpr cl_ulong kQueueProperties = 0x1093, kQueuePriority = 0x1096, kPriorityHigh = 1;
  using Create = cl_command_queue (*)(cl_context, cl_device_id, const cl_ulong*, cl_int*);
  if (prioritised && device.properties().version_major >= 2 &&
      device.has_extension("cl_khr_priority_hints")) {
    if (auto create =
            reinterpret_cast<Create>(opencl_symbol("clCreateCommandQueueWithProperties"))) {
      const cl_ulong properties[] = {kQueueProperties, CL_QUEUE_PROFILING_ENABLE, kQueuePriority,
                                     kPriorityHigh, 0};
      cl_int code = CL_SUCCESS;
      cl_command_queue queue = create(device.context()(), device.handle()(), properties, &code);
      if (code == CL_SUCCESS) return cl::CommandQueue(queue);
    }
  }
  // Profiling is always on: it costs less than the noise (docs/architecture.md), and without it
  // events could not be timed.
  return translated([&] { return str("cannot create a command queue on ", device.label()); },
                    [&] {
                      return cl::CommandQueue(device.context(), device.handle(),
                                              CL_QUEUE_PROFILING_ENABLE);
                    });
}

thread_local std::array<StreamId, kMaxDevices> current_ids{};

}  // namespace

bool high_priority(StreamId id) noexcept { return id > kStreamsPerPriority; }

Stream::Stream(Device& device, StreamId id)
    : device_(device),
      id_(id),
      queue_(create_queue(device, high_priority(id))),
      faults_(std::make_unique<FaultWord>(device, queue_)) {}

Stream::~Stream() = default;

c10::Stream Stream::unpack() const {
  return c10::Stream(c10::Stream::UNSAFE,
                     c10::Device(c10::DeviceType::PrivateUse1, device_.index()), id_);
}

void Stream::submitted() {
  if (commands_.fetch_add(1, std::memory_order_relaxed) % kFlushInterval == 0) flush();
}

void Stream::flush() {
  const cl_int code = clFlush(queue_());
  if (code != CL_SUCCESS) raise(code, str("cannot flush a queue of ", device_.label()), "clFlush");
}

void Stream::drain() {
  const uint64_t commands = commands_.load(std::memory_order_relaxed);
  cl_int code;
  {
    trace::Call call(*this, trace::Kind::kWait, "clFinish");
    code = clFinish(queue_());
  }
  if (code != CL_SUCCESS) {
    raise(code, str("a command on ", device_.label(), " failed"), "clFinish");
  }
  finished_.store(commands, std::memory_order_relaxed);
}

void Stream::finish() {
  drain();
  store_launched_programs();
  faults_->check();
}

bool Stream::idle() {
  const uint64_t commands = commands_.load(std::memory_order_relaxed);
  if (commands == finished_.load(std::memory_order_relaxed)) return true;
  cl::Event last;
  {
    std::lock_guard lock(marker_mutex_);
    if (marked_commands_ == commands) last = last_marker_;
  }
  if (!last()) last = marker();
  return last.getInfo<CL_EVENT_COMMAND_EXECUTION_STATUS>() == CL_COMPLETE;
}

void Stream::wait_for(const cl::Event& event, const Device& source) {
  translated([&] { return str("cannot wait for an event of ", source.label()); },
             [&] {
               if (&source == &device_) {
                 const std::vector<cl::Event> events{event};
                 queue_.enqueueBarrierWithWaitList(&events);
                 submitted();
               } else {
                 // Devices have contexts of their own, and OpenCL cannot wait across contexts.
                 event.wait();
               }
             });
}

cl::Event Stream::marker() {
  return translated([&] { return str("cannot record an event on ", device_.label()); },
                    [&] {
                      cl::Event event;
                      std::lock_guard lock(marker_mutex_);
                      // Read before: what other threads enqueue meanwhile is not marked.
                      marked_commands_ = commands_.load(std::memory_order_relaxed) + 1;
                      queue_.enqueueMarkerWithWaitList(nullptr, &event);
                      last_marker_ = event;
                      commands_.fetch_add(1, std::memory_order_relaxed);
                      queue_.flush();
                      return event;
                    });
}

Stream& stream(c10::Stream stream) {
  TORCH_CHECK_VALUE(stream.device_type() == c10::DeviceType::PrivateUse1,
                    "expected a stream of ocl, got one of ", stream.device());
  return slot(stream.device_index(), stream.id());
}

Stream& default_stream(DeviceIndex device) { return slot(device, 0); }

Stream& current_stream(DeviceIndex device) {
  return slot(device, static_cast<size_t>(device) < kMaxDevices ? current_ids[device] : 0);
}

c10::Stream stream_from_pool(DeviceIndex device, bool high_priority) {
  const uint32_t next = streams_of(device).next[high_priority].fetch_add(1);
  const StreamId id = 1 + (high_priority ? kStreamsPerPriority : 0) + next % kStreamsPerPriority;
  return slot(device, id).unpack();
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

}  // namespace

void synchronize(DeviceIndex index) {
  device(index);  // checks the index
  for_each_stream(index, [](Stream& stream) { stream.finish(); });
}

void drain(DeviceIndex index) {
  for_each_stream(index, [](Stream& stream) { stream.drain(); });
}

}  // namespace ocl
