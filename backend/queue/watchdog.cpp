#include "backend/queue/watchdog.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "backend/base/environment.h"
#include "backend/base/error.h"
#include "backend/base/system.h"

namespace ocl::watchdog {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds, std::chrono::milliseconds;

constexpr microseconds kShortest{20}, kLongest = milliseconds(10);
constexpr milliseconds kInterruption{100};
constexpr size_t kListed = 6;

struct Noted {
  std::string name;
  cl::Event event;
};

using Key = std::pair<DeviceIndex, StreamId>;

struct State {
  std::mutex mutex;
  std::map<Key, std::deque<Noted>> commands;  // commands that had not ended at the last check
  std::map<DeviceIndex, uint64_t> ended;      // the number of commands that have ended
  // Streams whose wait timed out, and the value of `ended` then.
  std::map<Key, uint64_t> stuck;
};

// Leaked, like the streams.
State& state() {
  static auto* const state = new State;
  return *state;
}

std::atomic<void (*)()> check_interruption{nullptr};
thread_local int uninterrupted = 0;

// A wait flushes the queue, but a query does not.
void flush_queue_of(const cl::Event& event) {
  cl_command_queue queue = nullptr;
  clGetEventInfo(event(), CL_EVENT_COMMAND_QUEUE, sizeof(queue), &queue, nullptr);
  if (queue) clFlush(queue);
}

// Call with the lock. Moves commands that are over to `ended`, because releasing their events may
// call back.
void forget_ended(DeviceIndex device, std::deque<Noted>& commands, std::deque<Noted>& ended) {
  while (!commands.empty() && is_over(commands.front().event)) {
    ended.push_back(std::move(commands.front()));
    commands.pop_front();
    ++state().ended[device];
  }
}

// The number of commands that have ended on the device.
uint64_t progress(DeviceIndex device) {
  State& now = state();
  std::deque<Noted> ended;  // released after the lock
  std::lock_guard lock(now.mutex);
  for (auto& [key, commands] : now.commands) {
    if (key.first == device) forget_ended(device, commands, ended);
  }
  return now.ended[device];
}

Clock::duration limit() {
  constexpr auto kMost = std::chrono::duration_cast<std::chrono::seconds>(Clock::duration::max());
  const std::chrono::seconds chosen(
      environment_number("OCL_TIMEOUT", "a number of seconds").value_or(60));
  return std::min(chosen, kMost);
}

std::string describe(const std::deque<Noted>& commands) {
  std::string text;
  for (size_t i = 0; i < std::min(commands.size(), kListed); ++i) {
    const bool running = execution_status(commands[i].event) == CL_RUNNING;
    text += str(i ? ", " : "", commands[i].name, running ? " (running)" : "");
  }
  if (commands.size() > kListed) text += str(" and ", commands.size() - kListed, " more");
  return text;
}

std::string unfinished(DeviceIndex device) {
  State& now = state();
  std::lock_guard lock(now.mutex);
  std::string text;
  for (const auto& [key, commands] : now.commands) {
    if (key.first != device || commands.empty()) continue;
    text += str(text.empty() ? "" : "; ", describe(commands), " on stream ", key.second);
  }
  return text.empty() ? "none that torch enqueued" : text;
}

// Drivers wait for their commands when a process ends.
bool exit_would_wait() {
  if (in_bad_fork()) return false;
  State& now = state();
  const std::unique_lock lock(now.mutex, std::try_to_lock);
  return !lock || !now.stuck.empty();
}

[[noreturn]] void give_up(const Device& device, std::optional<Key> stream, Clock::duration waited) {
  static const bool once = (skip_destructors_if(&exit_would_wait), true);
  static_cast<void>(once);
  if (stream) {
    std::lock_guard lock(state().mutex);
    state().stuck[*stream] = state().ended[device.index()];
  }
  const auto length = std::chrono::duration_cast<std::chrono::seconds>(waited).count();
  const std::string text =
      str("no command of ", device.label(), " has ended ",
          length > 0 ? str("for ", length, " seconds") : "since an earlier wait was given up",
          " while the program waited (OCL_TIMEOUT). Unfinished: ", unfinished(device.index()),
          ". A kernel does not end, or the driver hangs. If these commands end, the device can be "
          "used again; else only in a new process");
  throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, kTimedOut, text);
}

// Whether an earlier wait for the stream timed out, and no command has ended since.
bool gave_up(std::optional<Key> stream) {
  if (!stream) return false;
  const uint64_t ended = progress(stream->first);
  std::lock_guard lock(state().mutex);
  const auto found = state().stuck.find(*stream);
  return found != state().stuck.end() && found->second == ended;
}

// Sleeps; the longer the wait has lasted, the longer.
void pause(Clock::duration waited) {
  const auto length = std::chrono::duration_cast<microseconds>(waited / 16);
  if (length < kShortest) return std::this_thread::yield();
  std::this_thread::sleep_for(std::min(length, kLongest));
}

void wait_until_over(const Device& device, const cl::Event& event, std::optional<Key> stream,
                     bool interruptible) {
  flush_queue_of(event);
  const auto most = limit();
  const auto begin = Clock::now();
  auto last_progress = begin, last_check = begin;
  uint64_t ended = progress(device.index());
  bool stuck = gave_up(stream);
  while (!is_over(event)) {
    const auto now = Clock::now();
    pause(now - begin);
    if (now - begin < milliseconds(1)) continue;
    if (const uint64_t later = progress(device.index()); later != ended) {
      ended = later;
      last_progress = now;
      stuck = false;
    }
    const auto check = check_interruption.load();
    if (interruptible && check && now - last_check >= kInterruption) {
      last_check = now;
      check();
    }
    if (stuck || now - last_progress >= most) give_up(device, stream, now - last_progress);
  }
}

void poll(const Device& device, const cl::Event& event, std::optional<Key> stream,
          bool interruptible) {
  if (!is_over(event)) wait_until_over(device, event, stream, interruptible);
  if (!stream) return;
  std::lock_guard lock(state().mutex);
  state().stuck.erase(*stream);
}

Key key_of(const Stream& stream) { return {stream.device().index(), stream.id()}; }

template <typename Body>
bool succeeds(Body&& body) noexcept {
  try {
    body();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

Uninterrupted::Uninterrupted() { ++uninterrupted; }
Uninterrupted::~Uninterrupted() { --uninterrupted; }

bool start() {
  if (!on() && !environment("OCL_TIMEOUT").empty()) {
    limit();
    watching.store(true);
  }
  return on();
}

void note(DeviceIndex device, StreamId stream, const std::string& name, cl::Event event) {
  std::deque<Noted> ended;  // released after the lock
  std::lock_guard lock(state().mutex);
  auto& commands = state().commands[{device, stream}];
  forget_ended(device, commands, ended);
  commands.push_back({name, std::move(event)});
}

void watch(Stream& stream) {
  if (on()) watch(stream, stream.marker());
}

void watch(const Device& device, const cl::Event& event) {
  if (on()) poll(device, event, std::nullopt, /*interruptible=*/false);
}

void watch(const Stream& stream, const cl::Event& event) {
  if (on()) poll(stream.device(), event, key_of(stream), uninterrupted == 0);
}

bool ends(Stream& stream) noexcept {
  if (!on()) return true;
  cl::Event marker;
  // Without a marker the wait itself reports the failure.
  if (!succeeds([&] { marker = stream.marker(); })) return true;
  return succeeds([&] { poll(stream.device(), marker, key_of(stream), false); });
}

bool ends(const Device& device, const cl::Event& event) noexcept {
  return !on() || succeeds([&] { poll(device, event, std::nullopt, false); });
}

bool is_stuck(const Device& device) noexcept {
  if (!on()) return false;
  std::lock_guard lock(state().mutex);
  return std::any_of(state().stuck.begin(), state().stuck.end(),
                     [&](const auto& each) { return each.first.first == device.index(); });
}

void set_check_interruption(void (*check)()) { check_interruption = check; }

}  // namespace ocl::watchdog
