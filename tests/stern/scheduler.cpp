#include "tests/stern/scheduler.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <random>
#include <thread>
#include <utility>

#include "tests/stern/entry_points.h"
#include "tests/stern/failure.h"
#include "tests/stern/profile.h"

namespace stern {
namespace {

using Lock = std::unique_lock<std::mutex>;

// Leaked, as its threads may outlive static objects.
struct Scheduler {
  std::mutex mutex;
  std::condition_variable work, done, called;
  std::vector<std::shared_ptr<Queue>> active;  // with flushed commands
  std::deque<std::function<void()>> callbacks;
  std::mt19937 random{0};
  std::shared_ptr<Queue> favourite;
  std::vector<const Command*> running;  // running commands that use the buffers
  uint64_t steps = 0;                   // commands that ended
  bool stopped = false;
  bool together = true;  // commands of several queues may run at once
  unsigned threads = 0;
  unsigned overlap = 2;  // threads that may run commands
  unsigned busy = 0;     // threads that run a command
  unsigned holding = 0;  // threads that have a reference to a queue
  int stall_seconds = 5;
};
Scheduler& scheduler() {
  static auto* const instance = new Scheduler;
  return *instance;
}

cl_ulong now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

bool over(const Event& event) { return event.status <= CL_COMPLETE; }

bool ready(const Queue& queue) {
  if (!queue.submitted || queue.running) return false;
  for (const auto& event : queue.commands.front().waits) {
    if (!over(*event)) return false;
  }
  return true;
}

// A queue whose next command can run; mostly the one of the last command. Whether the others wait
// for it or run at the same time is drawn anew for each queue that is chosen.
std::shared_ptr<Queue> choose(Scheduler& s) {
  if (s.busy >= (s.together ? s.overlap : 1)) return nullptr;
  std::vector<std::shared_ptr<Queue>> candidates;
  for (const auto& queue : s.active) {
    if (ready(*queue)) candidates.push_back(queue);
  }
  if (candidates.empty()) return nullptr;
  const bool stays = s.random() % 8 != 0;
  for (const auto& queue : candidates) {
    if (stays && queue == s.favourite) return queue;
  }
  s.favourite = candidates[s.random() % candidates.size()];
  s.together = s.random() % 4 != 0;
  return s.busy && !s.together ? nullptr : s.favourite;
}

// A program must not use a buffer of which a part is mapped for writing, nor write to one that is
// mapped for reading.
void check_use(const Command& command, Buffer& root, const Mapping& mapping) {
  for (const Use& use : command.uses) {
    if (&use.buffer->root() != &root) continue;
    const bool apart = mapping.offset >= use.buffer->origin + use.buffer->size ||
                       use.buffer->origin >= mapping.offset + mapping.size;
    if (use.buffer->parent && apart) continue;
    if (!use.writes && !mapping.writes()) continue;
    abort_with(command.what + " uses a buffer of " + std::to_string(root.size) +
                   " bytes that is mapped for " + (mapping.writes() ? "writing" : "reading"),
               &mapping.stack, "mapped here:", &command.event->stack, "enqueued here:");
  }
}

bool moves_only(const Command& command) {
  return command.type == CL_COMMAND_MAP_BUFFER || command.type == CL_COMMAND_MIGRATE_MEM_OBJECTS;
}

// Against the maps that are active.
void check_mapped(const Command& command) {
  if (moves_only(command)) return;
  for (const Use& use : command.uses) {
    Buffer& root = use.buffer->root();
    std::lock_guard lock(root.mutex);
    for (const auto& mapping : root.mappings) {
      if (mapping->active) check_use(command, root, *mapping);
    }
  }
}

// Makes a map active, and checks it against the commands that run.
void begin_mapping(Scheduler& s, const Command& command) {
  Buffer& root = command.uses.front().buffer->root();
  {
    std::lock_guard lock(root.mutex);
    command.mapping->active = true;
  }
  Lock lock(s.mutex);
  for (const Command* other : s.running) {
    if (!moves_only(*other)) check_use(*other, root, *command.mapping);
  }
}

cl_int execute(Scheduler& s, Queue& queue, Command& command) {
  static CallCount& executions = call_count("execution");
  const unsigned long before = replacements();
  const cl_int failure = executions.count();
  if (failure == kHang) hang(before);
  if (failure < 0) return failure;
  for (const auto& event : command.waits) {
    if (event->status < 0) return CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
  }
  check_mapped(command);
  if (command.mapping) begin_mapping(s, command);
  if (!command.run) return CL_SUCCESS;
  const cl_int code = command.run(queue.handle);
  const cl_int finished = next->clFinish(queue.handle);
  return code == CL_SUCCESS ? finished : code;
}

void run_one(Scheduler& s, Lock& lock, const std::shared_ptr<Queue>& queue) {
  {
    Command command = std::move(queue->commands.front());
    queue->commands.pop_front();
    --queue->submitted;
    set_status(*command.event, CL_RUNNING);
    queue->running = true;
    s.running.push_back(&command);
    ++s.busy;
    const bool delayed = s.random() % 32 == 0;
    const auto delay = std::chrono::microseconds(s.random() % 300);
    s.work.notify_one();  // another queue may be ready
    lock.unlock();
    if (delayed) std::this_thread::sleep_for(delay);
    const cl_int code = execute(s, *queue, command);
    if (code != CL_SUCCESS) refuse(code, command.what + " failed on the device");
    const std::shared_ptr<Event> event = command.event;
    lock.lock();
    std::erase(s.running, &command);
    lock.unlock();
    command = {};  // releases its objects before others learn that it ended
    lock.lock();
    queue->running = false;
    --s.busy;
    ++s.steps;
    ++queue->ended;
    if (code != CL_SUCCESS) queue->failure = code;
    set_status(*event, code == CL_SUCCESS ? CL_COMPLETE : code);
    s.work.notify_all();
    s.done.notify_all();
    lock.unlock();  // the event's last reference may go here
  }
  lock.lock();
}

void work() {
  Scheduler& s = scheduler();
  Lock lock(s.mutex);
  while (!s.stopped) {
    std::shared_ptr<Queue> queue = choose(s);
    if (!queue) {
      if (!s.busy) s.favourite.reset();
      s.work.wait(lock);
      continue;
    }
    ++s.holding;
    run_one(s, lock, queue);
    if (!queue->submitted && !queue->running) {
      std::erase(s.active, queue);
      if (s.favourite == queue) s.favourite.reset();
    }
    lock.unlock();
    queue.reset();
    lock.lock();
    --s.holding;
    s.done.notify_all();
  }
  s.done.notify_all();
}

void call_back() {
  Scheduler& s = scheduler();
  Lock lock(s.mutex);
  for (;;) {
    s.called.wait(lock, [&] { return !s.callbacks.empty(); });
    const auto callback = std::move(s.callbacks.front());
    s.callbacks.pop_front();
    lock.unlock();
    callback();
    lock.lock();
  }
}

void flush_locked(Scheduler& s, const std::shared_ptr<Queue>& queue) {
  for (; queue->submitted < queue->commands.size(); ++queue->submitted) {
    set_status(*queue->commands[queue->submitted].event, CL_SUBMITTED);
  }
  if (!queue->submitted) return;
  if (std::find(s.active.begin(), s.active.end(), queue) == s.active.end()) {
    s.active.push_back(queue);
  }
  s.work.notify_one();
}

// The event, or one that it depends on, whose command was not flushed; nullptr: none.
Event* unflushed(Event& event, int depth = 0) {
  if (over(event) || depth > 64) return nullptr;
  const auto queue = event.queue.lock();
  if (!queue) return nullptr;  // a user event
  if (event.status == CL_QUEUED) return &event;
  if (queue->commands.empty()) return nullptr;
  for (const auto& each : queue->commands.front().waits) {
    if (Event* const found = unflushed(*each, depth + 1)) return found;
  }
  return nullptr;
}

// Waits for an event. Aborts where no command has run for some seconds and the event waits for one
// that nobody flushed: a device would wait forever.
void wait_for(Scheduler& s, Lock& lock, Event& event) {
  while (!over(event) && !s.stopped) {
    const uint64_t before = s.steps;
    s.done.wait_for(lock, std::chrono::seconds(s.stall_seconds),
                    [&] { return over(event) || s.stopped || s.steps != before; });
    if (over(event) || s.steps != before || s.busy) continue;
    if (Event* const cause = unflushed(event)) {
      abort_with("a wait for a command that depends on one that was never flushed", &cause->stack,
                 "the unflushed command was enqueued here:", &event.stack,
                 "the awaited command was enqueued here:");
    }
  }
}

}  // namespace

std::mutex& schedule_mutex() { return scheduler().mutex; }

void schedule() { scheduler().work.notify_one(); }

void set_status(Event& event, cl_int status) {
  event.status = status;
  cl_ulong& time = event.times[CL_QUEUED - std::max(status, CL_COMPLETE)];
  if (!time) time = now();
  for (auto& callback : event.callbacks) {
    if (!callback.function || status > callback.status) continue;
    scheduler().callbacks.push_back([handle = event.handle(), status, callback] {
      callback.function(handle, status, callback.data);
      stern::clReleaseEvent(handle);
    });
    callback.function = nullptr;
    scheduler().called.notify_one();
  }
  if (status <= CL_COMPLETE) scheduler().done.notify_all();
}

Event::Event(cl_context context, cl_command_type type)
    : dispatch(*reinterpret_cast<const void**>(context)), context(context), type(type) {}

cl_int enqueue(cl_command_queue handle, Command command, cl_uint wait_count, const cl_event* waits,
               cl_event* event, bool blocking) {
  const auto queue = queues().find(handle);
  if (!queue) return refuse(CL_INVALID_COMMAND_QUEUE, command.what + ": no such queue");
  if (!waits != !wait_count) return CL_INVALID_EVENT_WAIT_LIST;
  for (cl_uint i = 0; i < wait_count; ++i) {
    command.waits.push_back(events().find(waits[i]));
    if (!command.waits.back() || command.waits.back()->context != queue->context) {
      return refuse(CL_INVALID_EVENT_WAIT_LIST, command.what + ": no event of this context");
    }
  }
  for (const Use& use : command.uses) {
    if (use.buffer->context != queue->context) return CL_INVALID_CONTEXT;
    if (const cl_int code = make_resident(use.buffer->root())) return code;
  }
  const auto made = std::make_shared<Event>(queue->context, command.type);
  made->queue = queue;
  command.event = made;
  if (event) {
    *event = made->handle();
    events().add(*event, made);
  }
  Scheduler& s = scheduler();
  Lock lock(s.mutex);
  if (s.stopped) return CL_INVALID_COMMAND_QUEUE;
  set_status(*made, CL_QUEUED);
  queue->commands.push_back(std::move(command));
  ++queue->enqueued;
  if (!blocking) return CL_SUCCESS;
  flush_locked(s, queue);
  wait_for(s, lock, *made);
  return made->status < 0 ? made->status : CL_SUCCESS;
}

void flush(const std::shared_ptr<Queue>& queue) {
  Scheduler& s = scheduler();
  Lock lock(s.mutex);
  flush_locked(s, queue);
}

void load_schedule() {
  Scheduler& s = scheduler();
  Lock lock(s.mutex);
  s.random.seed(std::stoul(environment("STERN_SEED", "0")));
  s.stall_seconds = std::stoi(environment("STERN_STALL", "5"));
  s.overlap = std::max(1ul, std::stoul(environment("STERN_OVERLAP", "2")));
  if (!s.threads) std::thread(call_back).detach();
  for (; s.threads < s.overlap; ++s.threads) std::thread(work).detach();
}

void settle() {
  Scheduler& s = scheduler();
  Lock lock(s.mutex);
  s.done.wait(lock, [&] { return s.holding == s.busy || s.stopped; });
}

void stop_scheduler() {
  Scheduler& s = scheduler();
  Lock lock(s.mutex);
  s.stopped = true;
  s.work.notify_all();
  s.done.notify_all();
  while (s.busy || s.holding) s.done.wait(lock);
}

cl_int clFlush(cl_command_queue handle) {
  const auto queue = queues().find(handle);
  if (!queue) return CL_INVALID_COMMAND_QUEUE;
  flush(queue);
  return CL_SUCCESS;
}

cl_int clFinish(cl_command_queue handle) {
  const auto queue = queues().find(handle);
  if (!queue) return CL_INVALID_COMMAND_QUEUE;
  Scheduler& s = scheduler();
  Lock lock(s.mutex);
  flush_locked(s, queue);
  const uint64_t target = queue->enqueued;
  if (!queue->commands.empty()) {
    const std::shared_ptr<Event> last = queue->commands.back().event;
    wait_for(s, lock, *last);
  }
  s.done.wait(lock, [&] { return queue->ended >= target || s.stopped; });
  return std::exchange(queue->failure, CL_SUCCESS);
}

cl_int clWaitForEvents(cl_uint count, const cl_event* list) {
  if (!count || !list) return CL_INVALID_VALUE;
  std::vector<std::shared_ptr<Event>> awaited;
  for (cl_uint i = 0; i < count; ++i) {
    awaited.push_back(events().find(list[i]));
    if (!awaited.back()) return refuse(CL_INVALID_EVENT, "clWaitForEvents: no such event");
  }
  Scheduler& s = scheduler();
  Lock lock(s.mutex);
  cl_int code = CL_SUCCESS;
  for (const auto& event : awaited) {
    if (const auto queue = event->queue.lock(); queue && event->status == CL_QUEUED) {
      if (!profile().wait_flushes) {
        abort_with("clWaitForEvents of a command that was never flushed", &event->stack,
                   "enqueued here:");
      }
      flush_locked(s, queue);
    }
    wait_for(s, lock, *event);
    if (event->status < 0) code = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
  }
  return code;
}

}  // namespace stern
