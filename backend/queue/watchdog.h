// OCL_TIMEOUT=seconds: if no command of the device ends for so long during a wait, the wait raises
// an exception that names the unfinished commands. OpenCL's waits have no limit, so the host first
// polls the status of an event until it is over.
//
//   watchdog::watch(stream);              // before a call of OpenCL that waits for the stream
//   watchdog::watch(device, event);       // before one that waits for an event
//
// Without OCL_TIMEOUT this costs a load of `watching`.
#pragma once

#include <atomic>
#include <string>

#include "backend/queue/stream.h"

namespace ocl::watchdog {

// The code of the exceptions, which is not one of OpenCL's.
inline constexpr cl_int kTimedOut = -9001;

inline std::atomic<bool> watching{false};

inline bool on() { return C10_UNLIKELY(watching.load(std::memory_order_relaxed)); }

// Reads OCL_TIMEOUT; throws ValueError where it is not a number. Returns whether it is set: then
// trace.h must record OpenCL calls, and it passes the commands to note().
bool start();

// Notes an enqueued command.
void note(DeviceIndex device, StreamId stream, const std::string& name, cl::Event event);

// Returns when the commands so far, or the event, are over. Raises AcceleratorError after the
// limit; watch(stream) passes on what check_interruption() throws.
void watch(Stream& stream);
void watch(const Stream& stream, const cl::Event& event);
void watch(const Device& device, const cl::Event& event);

// While it lives, Ctrl-C does not interrupt this thread's waits. For threads that hold a lock:
// check_interruption() takes Python's lock, whose owner may wait for theirs.
struct Uninterrupted {
  Uninterrupted();
  ~Uninterrupted();
};

// watch() for callers that cannot raise. Returns false if a wait would not end.
bool ends(Stream& stream) noexcept;
bool ends(const Device& device, const cl::Event& event) noexcept;

// Whether a wait for the device timed out, and its commands are still unfinished.
bool is_stuck(const Device& device) noexcept;

// `check` throws if the user has pressed Ctrl-C. watch() calls it several times a second.
void set_check_interruption(void (*check)());

}  // namespace ocl::watchdog
