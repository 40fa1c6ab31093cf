#include "backend/queue/trace.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "backend/base/error.h"
#include "backend/base/system.h"
#include "backend/queue/device_clock.h"
#include "backend/queue/watchdog.h"

namespace ocl::trace {
namespace {

// A recorded command until its times are known.
struct Entry {
  Command command;
  c10::approx_time_t called, returned;
  cl::Event event;
  cl_ulong started = 0, ended = 0;
};

// The most events whose times have not been read: drivers keep memory for each. Reading is
// deferred, because between launches it costs up to half of a small launch.
constexpr size_t kKeptEvents = 65536;

struct Session {
  std::deque<Entry> entries;
  size_t timed = 0;  // entries whose times have been read
  std::map<DeviceIndex, DeviceClock> clocks;
  std::optional<c10::ApproximateClockToUnixTimeConverter> converter;
};

struct State {
  std::mutex mutex;
  Session session;
  bool recording = false;
};

// Leaked, like the streams.
State& state() {
  static auto* const state = new State;
  return *state;
}

std::atomic<bool> device_times{false};
std::atomic<uint64_t> generation{0};

struct Scopes {
  uint64_t generation = 0;
  std::array<std::vector<uint64_t>, 2> numbers;

  std::vector<uint64_t>& of(Scope scope) {
    const uint64_t now = trace::generation.load(std::memory_order_relaxed);
    if (C10_UNLIKELY(generation != now)) {
      for (auto& each : numbers) each.clear();
      generation = now;
    }
    return numbers[static_cast<size_t>(scope)];
  }

  uint64_t innermost(Scope scope) {
    const auto& stack = of(scope);
    return stack.empty() ? 0 : stack.back();
  }
};
thread_local Scopes scopes;
thread_local const auto thread_number = static_cast<int32_t>(thread_id());

// Reads the times of a command; a failed command has none.
void read_times(Entry& entry) {
  if (!entry.event()) return;
  const auto read = [&](cl_profiling_info what, cl_ulong& value) {
    return clGetEventProfilingInfo(entry.event(), what, sizeof(value), &value, nullptr) ==
           CL_SUCCESS;
  };
  if (!read(CL_PROFILING_COMMAND_START, entry.started) ||
      !read(CL_PROFILING_COMMAND_END, entry.ended)) {
    entry.started = entry.ended = 0;
  }
  const cl::Event read_out(std::move(entry.event));  // an assignment throws if a release fails
}

void add(State& state, Entry&& entry) {
  std::lock_guard lock(state.mutex);
  if (!state.recording) return;  // the trace has stopped, or only the watchdog needs the command
  Session& now = state.session;
  now.entries.push_back(std::move(entry));
  if (now.entries.size() - now.timed < kKeptEvents) return;
  for (; now.timed < now.entries.size(); ++now.timed) {
    Entry& oldest = now.entries[now.timed];
    if (oldest.event() && !is_over(oldest.event)) return;
    read_times(oldest);
  }
}

// Translates the device's times to the host's clock.
void translate_times(Session& session) {
  for (Entry& entry : session.entries) {
    if (entry.ended == 0) continue;
    auto found = session.clocks.find(entry.command.device);
    if (found == session.clocks.end()) {
      found = session.clocks.emplace(entry.command.device, device(entry.command.device)).first;
    }
    found->second.started_after(entry.started, entry.command.called);
  }
  for (Entry& entry : session.entries) {
    if (entry.ended == 0) continue;
    Command& command = entry.command;
    const DeviceClock& clock = session.clocks.at(command.device);
    command.started =
        clock.runs() ? std::max(clock.to_host(entry.started), command.called) : command.called;
    command.ended = command.started + static_cast<int64_t>(entry.ended - entry.started);
  }
}

}  // namespace

void start(Recorded what) {
  if (in_bad_fork()) return;
  stop();
  std::lock_guard lock(state().mutex);
  Session& now = state().session;
  now = {};
  now.converter.emplace();
  if (what.device_times && initialized()) {
    for (DeviceIndex i = 0; i < device_count(); ++i) {
      const bool has_times = device(i).properties().has_profiling;
      if (has_times && device(i).has_context()) now.clocks.emplace(i, device(i));
    }
  }
  generation.fetch_add(1, std::memory_order_relaxed);
  device_times.store(what.device_times, std::memory_order_relaxed);
  state().recording = what.calls || what.device_times;
  on.store(state().recording || watchdog::on(), std::memory_order_release);
}

std::vector<Command> stop() {
  if (in_bad_fork()) return {};
  Session now;
  {
    // Released before the waits below: a command may wait for a thread that needs the lock to add a
    // command.
    std::lock_guard lock(state().mutex);
    if (!std::exchange(state().recording, false)) return {};
    on.store(watchdog::on());
    device_times.store(false, std::memory_order_relaxed);
    now = std::exchange(state().session, {});
  }
  const auto to_unix = now.converter->makeConverter();
  std::vector<Command> commands;
  commands.reserve(now.entries.size());
  bool ends = true;  // the commands
  for (Entry& entry : now.entries) {
    // A command that failed raises at the next synchronisation, not here.
    if (entry.event() && ends) ends = watchdog::ends(device(entry.command.device), entry.event);
    if (entry.event() && ends) clWaitForEvents(1, &entry.event());
    if (ends) read_times(entry);
    entry.command.called = to_unix(entry.called);
    entry.command.returned = to_unix(entry.returned);
  }
  if (ends) {
    for (auto& [index, clock] : now.clocks) clock.add_reading();
    translate_times(now);
  }
  for (Entry& entry : now.entries) commands.push_back(entry.command);
  return commands;
}

void push(Scope scope, uint64_t number) { scopes.of(scope).push_back(number); }

void pop(Scope scope) {
  auto& stack = scopes.of(scope);
  if (!stack.empty()) stack.pop_back();
}

void Call::begin(Stream& stream, const CommandInfo& info) {
  Command& command = command_.emplace(Command{info});
  command.device = stream.device().index();
  command.stream = stream.id();
  const bool timed =
      device_times.load(std::memory_order_relaxed) && stream.device().properties().has_profiling;
  with_event_ = info.kind != Kind::kWait && (timed || watchdog::on());
  try {
    if (with_event_ && timed) stream.enable_times();
  } catch (const std::exception&) {
    with_event_ = false;  // the trace then lacks the device times, but the command must not fail
  }
  static_assert(sizeof(c10::approx_time_t) == sizeof(command.called));
  command.called = static_cast<int64_t>(c10::getApproximateTime());
}

void Call::end() {
  Entry entry{
      *command_, static_cast<c10::approx_time_t>(command_->called), c10::getApproximateTime(), {}};
  cl::Event& event = wanted_ ? *wanted_ : own_;
  if (command_->kind != Kind::kWait && with_event_) {
    if (!event()) return;  // the call failed
    try {
      cl::Event copy(event);
      if (watchdog::on()) {
        watchdog::note(command_->device, command_->stream,
                       command_->kernel ? *command_->kernel : command_->function, copy);
      }
      entry.event = std::move(copy);
    } catch (const cl::Error&) {
      return;  // a destructor calls end(), so it must not throw
    }
  }
  entry.command.thread = thread_number;
  entry.command.op = scopes.innermost(Scope::kOp);
  entry.command.annotation = scopes.innermost(Scope::kAnnotation);
  add(state(), std::move(entry));
}

}  // namespace ocl::trace
