#include "python/memory.h"

#include <c10/core/AllocatorConfig.h>
#include <pybind11/stl.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <algorithm>

#include "backend/memory/allocator.h"
#include "backend/memory/device_cache.h"
#include "backend/memory/host_allocator.h"
#include "backend/memory/memory_history.h"

// Its header needs nlohmann/json, which PyTorch does not install.
namespace torch {
TORCH_API std::vector<pybind11::object> py_symbolize(std::vector<CapturedTraceback*>& stacks);
}

namespace ocl {
namespace {

namespace py = pybind11;
using py::literals::operator""_a;

// Collects stacks to symbolize them together, which is much faster than one by one.
class Stacks {
 public:
  void put(const py::dict& target, const Stack& stack) {
    if (!stack) return;
    targets_.push_back(target);
    tracebacks_.push_back(torch::getCapturedTracebackFromContext(stack));
  }
  void write_frames() {
    const std::vector<py::object> frames = torch::py_symbolize(tracebacks_);
    for (size_t i = 0; i < frames.size(); ++i) targets_[i]["frames"] = frames[i];
  }

 private:
  std::vector<py::dict> targets_;
  std::vector<torch::CapturedTraceback*> tracebacks_;
};

const char* state_of(const BlockSnapshot& block) {
  if (block.allocated) return "active_allocated";
  return block.awaiting_free ? "active_awaiting_free" : "inactive";
}

py::dict segment_dict(const SegmentSnapshot& segment, Stacks& stacks) {
  py::list blocks;
  size_t allocated = 0, active = 0, requested = 0;
  for (const BlockSnapshot& block : segment.blocks) {
    if (block.allocated) allocated += block.size;
    if (block.allocated || block.awaiting_free) {
      active += block.size;
      requested += block.requested;
    }
    py::dict entry("address"_a = block.address, "size"_a = block.size,
                   "requested_size"_a = block.requested, "state"_a = state_of(block));
    stacks.put(entry, block.stack);
    blocks.append(entry);
  }
  py::dict entry("device"_a = int{segment.device}, "address"_a = segment.address,
                 "total_size"_a = segment.size, "allocated_size"_a = allocated,
                 "active_size"_a = active, "requested_size"_a = requested,
                 "stream"_a = segment.stream, "segment_type"_a = segment.small ? "small" : "large",
                 "segment_pool_id"_a = py::make_tuple(0, segment.pool), "is_expandable"_a = false,
                 "blocks"_a = blocks);
  stacks.put(entry, segment.stack);
  return entry;
}

py::dict event_dict(const MemoryEvent& event, Stacks& stacks) {
  const bool failure = event.action == MemoryEvent::kOutOfMemory;
  py::dict entry("action"_a = MemoryEvent::kNames[event.action], "size"_a = event.bytes,
                 "stream"_a = plain_stream(event.stream),
                 "pool_id"_a = py::make_tuple(0, pool_of(event.stream)), "time_us"_a = event.time,
                 "compile_context"_a = "N/A", "user_metadata"_a = "");
  entry[failure ? "device_free" : "addr"] = event.address;
  stacks.put(entry, event.stack);
  return entry;
}

py::dict settings_dict() {
  using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;
  return py::dict("PYTORCH_ALLOC_CONF"_a = Config::last_allocator_settings(),
                  "max_split_size"_a = static_cast<int64_t>(Config::max_split_size()),
                  "expandable_segments"_a = false);
}

// The snapshot, in the form of torch.cuda.memory._snapshot().
py::dict snapshot() {
  std::vector<SegmentSnapshot> segments;
  std::vector<MemoryEvent> events;
  {
    // Other threads may hold the allocator's lock and wait for Python's.
    py::gil_scoped_release release;
    segments = Allocator::instance().snapshot();
    events = MemoryHistory::instance().events();
  }
  Stacks stacks;
  py::list segment_list;
  for (const SegmentSnapshot& segment : segments) {
    segment_list.append(segment_dict(segment, stacks));
  }
  std::vector<py::list> traces(static_cast<size_t>(device_count()));
  for (const MemoryEvent& event : events) traces[event.device].append(event_dict(event, stacks));
  stacks.write_frames();
  return py::dict("segments"_a = segment_list, "device_traces"_a = traces,
                  "allocator_settings"_a = settings_dict(), "external_annotations"_a = py::list());
}

// Statistics in the form of torch.cuda.memory.host_memory_stats_as_nested_dict().
py::dict host_memory_dict() {
  at::HostStats stats;
  {
    py::gil_scoped_release release;
    stats = host_allocator()->get_stats();
  }
  const auto sizes = [](const auto& stat) {
    return py::dict("current"_a = stat.current, "peak"_a = stat.peak,
                    "allocated"_a = stat.allocated, "freed"_a = stat.freed);
  };
  const auto times = [](const auto& stat) {
    return py::dict("total"_a = stat.total, "max"_a = stat.max, "min"_a = stat.min,
                    "count"_a = stat.count, "avg"_a = stat.count ? stat.total / stat.count : 0);
  };
  return py::dict("num_host_alloc"_a = stats.num_host_alloc,
                  "num_host_free"_a = stats.num_host_free,
                  "allocations"_a = sizes(stats.allocations),
                  "allocated_bytes"_a = sizes(stats.allocated_bytes),
                  "active_requests"_a = sizes(stats.active_requests),
                  "active_bytes"_a = sizes(stats.active_bytes),
                  "host_alloc_time"_a = times(stats.host_alloc_time),
                  "host_free_time"_a = times(stats.host_free_time));
}

Stack python_stack() { return torch::CapturedTraceback::gather(true, true, false); }
Stack full_stack() { return torch::CapturedTraceback::gather(true, true, true); }

void start_history(KeepStacks stacks, bool cpp, size_t max_events, bool forget,
                   const std::vector<std::string>& skipped) {
  MemoryHistory::Settings settings{stacks, cpp ? &full_stack : &python_stack, max_events, {}};
  for (const std::string& name : skipped) {
    const auto* const end = MemoryEvent::kNames + MemoryEvent::kActions;
    const auto* const found = std::find(MemoryEvent::kNames, end, name);
    TORCH_CHECK_VALUE(found != end, "skip_actions: there is no action \"", name, "\"");
    settings.skipped[found - MemoryEvent::kNames] = true;
  }
  MemoryHistory::instance().start(settings, forget);
}

void set_observer(py::function call) {
  // Called and destroyed by threads without Python's lock.
  auto* const kept = new py::function(std::move(call));
  set_out_of_memory_observer(
      [kept](DeviceIndex device, size_t requested, size_t total, size_t free) {
        py::gil_scoped_acquire acquire;
        try {
          (*kept)(int{device}, requested, total, free);
        } catch (py::error_already_set& error) {
          error.discard_as_unraisable("an observer of torch.OutOfMemoryError");
        }
      });
}

}  // namespace

void bind_memory(py::module_& m) {
  py::enum_<KeepStacks>(m, "KeepStacks")
      .value("never", KeepStacks::kNever)
      .value("state", KeepStacks::kState)
      .value("alloc", KeepStacks::kAlloc)
      .value("all", KeepStacks::kAll);
  m.def("memory_snapshot", &snapshot);
  m.def("start_memory_history", &start_history, "stacks"_a, "cpp"_a, "max_events"_a, "forget"_a,
        "skipped"_a);
  m.def("stop_memory_history", [] { MemoryHistory::instance().stop(); });
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  m.def("set_out_of_memory_observer", &set_observer);
  m.def(
      "empty_cache", [] { Allocator::instance().emptyCache(); }, Unlocked());
  m.def(
      "memory_info", [](DeviceIndex index) { return Allocator::instance().getMemoryInfo(index); },
      Unlocked());
  m.def(
      "set_memory_fraction",
      [](double fraction, DeviceIndex index) {
        Allocator::instance().set_memory_fraction(fraction, index);
      },
      Unlocked());
  m.def(
      "memory_fraction",
      [](DeviceIndex index) { return Allocator::instance().memory_fraction(index); }, Unlocked());
  m.def(
      "add_pool_user",
      [](uint64_t pool, DeviceIndex index) { Allocator::instance().add_pool_user(pool, index); },
      Unlocked());
  m.def(
      "remove_pool_user",
      [](uint64_t pool, DeviceIndex index) { Allocator::instance().remove_pool_user(pool, index); },
      Unlocked());
  m.def("exchange_thread_pool", &Allocator::exchange_thread_pool, Unlocked());
  m.def("host_memory_stats", &host_memory_dict);
  m.def(
      "reset_host_memory_stats",
      [](bool peak) {
        peak ? host_allocator()->reset_peak_stats() : host_allocator()->reset_accumulated_stats();
      },
      Unlocked());
}

}  // namespace ocl
