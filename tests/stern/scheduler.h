// Threads run the commands of all queues in an order that STERN_SEED draws: within a queue one
// after the other, between queues at random, with delays. Commands of STERN_OVERLAP queues run at
// once, at times; at others, all commands wait for one queue. A queue's commands are kept back
// until a flush. Kernels, copies and host pointers are touched only then.
#pragma once

#include <deque>
#include <functional>

#include "tests/stern/objects.h"

namespace stern {

struct Event {
  Event(cl_context context, cl_command_type type);

  const void* dispatch;  // the loader expects it at the start of an object
  const cl_context context;
  const cl_command_type type;
  const Stack stack = Stack::here();
  // Guarded by the scheduler's lock.
  cl_int status = CL_QUEUED;
  std::weak_ptr<Queue> queue;  // none: a user event
  cl_ulong times[4] = {};      // queued, submitted, start, end
  struct Callback {
    cl_int status;
    void(CL_CALLBACK* function)(cl_event, cl_int, void*);
    void* data;
  };
  std::vector<Callback> callbacks;

  cl_event handle() { return reinterpret_cast<cl_event>(this); }
};

// A part of a buffer that a command works on.
struct Use {
  std::shared_ptr<Buffer> buffer;
  bool writes;
};

struct Command {
  cl_command_type type;
  std::vector<Use> uses;
  std::function<cl_int(cl_command_queue)> run;  // on PoCL's queue; may return before it is done
  std::string what;                             // for messages
  std::vector<std::shared_ptr<Event>> waits;
  std::shared_ptr<Event> event;
  std::shared_ptr<Mapping> mapping = nullptr;  // the mapping that it begins
};

struct Queue : Object<cl_command_queue, &cl_icd_dispatch::clReleaseCommandQueue> {
  using Object::Object;

  cl_context context = nullptr;
  Keep<Context> kept;
  bool profiling = false;
  // Guarded by the scheduler's lock.
  std::deque<Command> commands;
  size_t submitted = 0;  // how many in front were flushed
  bool running = false;
  uint64_t enqueued = 0, ended = 0;
  cl_int failure = CL_SUCCESS;  // returned by the next clFinish
};

// The common part of all clEnqueue* functions: checks, allocates, enqueues, and waits if
// `blocking`.
cl_int enqueue(cl_command_queue queue, Command command, cl_uint wait_count, const cl_event* waits,
               cl_event* event, bool blocking = false);

void flush(const std::shared_ptr<Queue>& queue);

// Guards the state of queues and events.
std::mutex& schedule_mutex();
// Under the lock: changes the status. Callbacks run in a thread of their own, since they may wait
// for other threads.
void set_status(Event& event, cl_int status);
// After a user event has ended.
void schedule();

// Waits until the threads have released the objects of all commands that ended: for those who count
// objects.
void settle();

// Reads STERN_SEED, STERN_OVERLAP and STERN_STALL, and starts the threads.
void load_schedule();
void stop_scheduler();

}  // namespace stern
