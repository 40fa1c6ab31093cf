// The device's part of torch.profiler. A session gives Kineto, which is part of PyTorch, the
// commands that backend/queue/trace recorded.
#ifdef USE_KINETO

#include <libkineto.h>
#include <output_base.h>
#if __has_include(<torch/csrc/profiler/standalone/privateuse1_profiler.h>)
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#endif

#include <map>

#include "backend/base/error.h"
#include "backend/base/system.h"
#include "backend/queue/stream_slots.h"
#include "backend/queue/trace.h"

namespace ocl {
namespace {

using libkineto::ActivityType;
using libkineto::GenericTraceActivity;
using trace::Kind;
using Types = std::set<ActivityType>;

struct Shown {
  ActivityType type;
  const char* name;
};

// The name and type of a command's activity on the device; kernels are shown with their own names.
Shown shown(Kind kind) {
  switch (kind) {
    case Kind::kKernel:
      return {ActivityType::CONCURRENT_KERNEL, ""};
    case Kind::kCopyToDevice:
      return {ActivityType::GPU_MEMCPY, "Memcpy HtoD"};
    case Kind::kCopyToHost:
      return {ActivityType::GPU_MEMCPY, "Memcpy DtoH"};
    case Kind::kCopyOnDevice:
      return {ActivityType::GPU_MEMCPY, "Memcpy DtoD"};
    case Kind::kFill:
      return {ActivityType::GPU_MEMSET, "Memset"};
    case Kind::kMap:
      return {ActivityType::GPU_MEMCPY, "Map"};
    case Kind::kUnmap:
      return {ActivityType::GPU_MEMCPY, "Unmap"};
    case Kind::kWait:
      break;
  }
  return {ActivityType::ENUM_COUNT, ""};
}

std::string list(const std::array<size_t, 3>& sizes) {
  return str("[", sizes[0], ", ", sizes[1], ", ", sizes[2], "]");
}

std::string queue_name(StreamId id) {
  if (id == 0) return "queue 0 (default)";
  return str("queue ", id, high_priority(id) ? " (high)" : is_staging(id) ? " (staging)" : "");
}

class Session final : public libkineto::IActivityProfilerSession {
 public:
  explicit Session(Types types) : types_(std::move(types)) {}
  ~Session() override {
    if (status_ == libkineto::TraceStatus::RECORDING) trace::stop();
  }

  void start() override {
    const bool device = types_.count(ActivityType::CONCURRENT_KERNEL) ||
                        types_.count(ActivityType::GPU_MEMCPY) ||
                        types_.count(ActivityType::GPU_MEMSET);
    trace::start(
        {.calls = types_.count(ActivityType::PRIVATEUSE1_RUNTIME) > 0, .device_times = device});
    status_ = libkineto::TraceStatus::RECORDING;
    buffer_.span = libkineto::TraceSpan(c10::getTime(), 0, "ocl");
    buffer_.gpuOpCount = 0;
  }

  void stop() override {
    commands_ = trace::stop();
    status_ = libkineto::TraceStatus::PROCESSING;
    buffer_.span.endTime = c10::getTime();
  }

  std::vector<std::string> errors() override { return {}; }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(
        logger, [](int32_t) { return nullptr; }, 0, 0);
  }

  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked,
                    int64_t, int64_t) override {
    // A call and its command have the same id. Ids continue after those of earlier traces in the
    // same file.
    for (const trace::Command& command : commands_) {
      const int32_t id = next_id();
      add_call(command, id, linked, logger);
      add_device_part(command, id, linked, logger);
    }
    for (auto& [key, annotation] : annotations_) annotation->log(logger);
    for (const auto& [index, queues] : devices_) {
      if (index != devices_.begin()->first) logger.handleDeviceInfo(info(index), 0);
    }
    commands_.clear();
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    if (devices_.empty()) return nullptr;
    return std::make_unique<libkineto::DeviceInfo>(info(devices_.begin()->first));
  }

  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    std::vector<libkineto::ResourceInfo> queues;
    for (const auto& [device, ids] : devices_) {
      for (const StreamId id : ids) {
        queues.push_back({0, 0, 0, queue_name(id)});
        // Sets the members by name: before PyTorch 2.13 the constructor had another order of them.
        queues.back().id = queues.back().sortIndex = id;
        queues.back().deviceId = device;
      }
    }
    return queues;
  }

  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    return std::make_unique<libkineto::CpuTraceBuffer>(std::move(buffer_));
  }

  std::string getDeviceProperties() override {
    std::string all;
    for (const trace::Command& command : commands_) seen(command);
    for (const auto& [index, queues] : devices_) {
      const DeviceProperties& p = device(index).properties();
      all += str(all.empty() ? "" : ",", "{\"id\": ", int{index}, ", \"name\": \"", p.name,
                 "\", \"vendor\": \"", p.vendor, "\", \"platform\": \"", p.platform,
                 "\", \"version\": \"", p.version, "\", \"driver\": \"", p.driver_version,
                 "\", \"totalGlobalMem\": ", p.total_memory,
                 ", \"maxThreadsPerBlock\": ", p.max_work_group_size,
                 ", \"sharedMemPerBlock\": ", p.local_memory,
                 ", \"computeUnits\": ", p.max_compute_units, "}");
    }
    return all;
  }

  void pushCorrelationId(uint64_t id) override { trace::push(trace::Scope::kOp, id); }
  void popCorrelationId() override { trace::pop(trace::Scope::kOp); }
  void pushUserCorrelationId(uint64_t id) override { trace::push(trace::Scope::kAnnotation, id); }
  void popUserCorrelationId() override { trace::pop(trace::Scope::kAnnotation); }

 private:
  using Linked = libkineto::getLinkedActivityCallback;

  static int32_t next_id() {
    static std::atomic<uint32_t> last{0};
    return static_cast<int32_t>((last.fetch_add(1) + 1) & 0x7FFFFFFF);
  }

  static libkineto::DeviceInfo info(DeviceIndex index) {
    return {index, libkineto::kExceedMaxPid + index, str("ocl:", int{index}),
            device(index).properties().name};
  }

  void seen(const trace::Command& command) { devices_[command.device].insert(command.stream); }

  GenericTraceActivity& add(ActivityType type, const std::string& name,
                            const trace::Command& command, int32_t id, const Linked& linked) {
    buffer_.emplace_activity(buffer_.span, type, name);
    GenericTraceActivity& activity = *buffer_.activities.back();
    activity.id = id;
    activity.threadId = command.thread;
    activity.linked = command.op ? linked(static_cast<int32_t>(command.op)) : nullptr;
    activity.addMetadata("correlation", id);
    return activity;
  }

  void add_call(const trace::Command& command, int32_t id, const Linked& linked,
                libkineto::ActivityLogger& logger) {
    if (!types_.count(ActivityType::PRIVATEUSE1_RUNTIME)) return;
    GenericTraceActivity& call =
        add(ActivityType::PRIVATEUSE1_RUNTIME, command.function, command, id, linked);
    call.startTime = command.called;
    call.endTime = command.returned;
    call.device = process_id();
    call.resource = command.thread;
    if (command.ended && types_.count(shown(command.kind).type)) set_flow(call, id, true);
    call.log(logger);
  }

  void add_device_part(const trace::Command& command, int32_t id, const Linked& linked,
                       libkineto::ActivityLogger& logger) {
    const Shown how = shown(command.kind);
    if (!command.ended || !types_.count(how.type)) return;
    seen(command);
    GenericTraceActivity& activity =
        add(how.type, command.kernel ? *command.kernel : how.name, command, id, linked);
    activity.startTime = command.started;
    activity.endTime = command.ended;
    activity.device = command.device;
    activity.resource = static_cast<int32_t>(command.stream);
    activity.addMetadata("device", int{command.device});
    activity.addMetadata("stream", command.stream);
    if (types_.count(ActivityType::PRIVATEUSE1_RUNTIME)) set_flow(activity, id, false);
    if (command.global[0]) {
      std::array<size_t, 3> groups;
      for (size_t i = 0; i < 3; ++i) groups[i] = command.global[i] / command.local[i];
      activity.addMetadata("global size", list(command.global));
      activity.addMetadata("local size", list(command.local));
      activity.addMetadata("grid", list(groups));  // TensorBoard's names
      activity.addMetadata("block", list(command.local));
    } else if (command.bytes) {
      activity.addMetadata("bytes", command.bytes);
    }
    // A map may move 0 bytes.
    if (command.bytes && command.kind != Kind::kMap) {
      const auto elapsed = static_cast<double>(std::max<int64_t>(1, activity.duration()));
      activity.addMetadata("memory bandwidth (GB/s)", static_cast<double>(command.bytes) / elapsed);
    }
    ++buffer_.gpuOpCount;
    activity.log(logger);
    annotate(command, activity, linked);
  }

  static void set_flow(GenericTraceActivity& activity, int32_t id, bool start) {
    activity.flow.id = static_cast<uint32_t>(id);
    activity.flow.type = libkineto::kLinkAsyncCpuGpu;
    activity.flow.start = start;
  }

  // A record_function() is shown on each queue, too, from the first to the last of its commands.
  void annotate(const trace::Command& command, const GenericTraceActivity& activity,
                const Linked& linked) {
    if (!command.annotation || !types_.count(ActivityType::GPU_USER_ANNOTATION)) return;
    GenericTraceActivity*& span =
        annotations_[{command.device, command.stream, command.annotation}];
    if (span) {
      span->startTime = std::min(span->startTime, activity.startTime);
      span->endTime = std::max(span->endTime, activity.endTime);
      return;
    }
    const auto* around = linked(static_cast<int32_t>(command.annotation));
    if (!around) {
      annotations_.erase({command.device, command.stream, command.annotation});
      return;
    }
    buffer_.emplace_activity(buffer_.span, ActivityType::GPU_USER_ANNOTATION, around->name());
    span = buffer_.activities.back().get();
    span->startTime = activity.startTime;
    span->endTime = activity.endTime;
    span->device = activity.device;
    span->resource = activity.resource;
    // The span is not linked to an operator, because kernels of other operators run in it, too.
    span->id = static_cast<int32_t>(command.annotation);
  }

  Types types_;
  std::vector<trace::Command> commands_;
  libkineto::CpuTraceBuffer buffer_;
  std::map<DeviceIndex, std::set<StreamId>> devices_;
  std::map<std::tuple<DeviceIndex, StreamId, uint64_t>, GenericTraceActivity*> annotations_;
};

class OclProfiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    static const std::string name = "ocl";
    return name;
  }

  const Types& availableActivities() const override {
    static const Types all{ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY,
                           ActivityType::GPU_MEMSET, ActivityType::GPU_USER_ANNOTATION,
                           ActivityType::PRIVATEUSE1_RUNTIME};
    return all;
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const Types& types, const libkineto::Config&) override {
    Types wanted;
    std::set_intersection(types.begin(), types.end(), availableActivities().begin(),
                          availableActivities().end(), std::inserter(wanted, wanted.end()));
    return wanted.empty() ? nullptr : std::make_unique<Session>(std::move(wanted));
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t, int64_t, const Types& types, const libkineto::Config& config) override {
    return configure(types, config);
  }
};

#ifdef REGISTER_PRIVATEUSE1_PROFILER
REGISTER_PRIVATEUSE1_PROFILER(OclProfiler);
#else  // PyTorch 2.11
const bool registered = [] {
  libkineto::api().registerProfilerFactory([] { return std::make_unique<OclProfiler>(); });
  return true;
}();
#endif

}  // namespace
}  // namespace ocl

#endif
