// OCL_TIMEOUT=seconds: a wait in which no command of the device ends for so long raises an
// exception that names the unfinished commands, in place of a program that waits forever. OpenCL
// waits without a limit, so the host first asks for the status of an event until it is over.
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

// Reads OCL_TIMEOUT; throws ValueError where it is no number. Whether it is set: then calls of
// OpenCL must be recorded (trace.h), which notes the commands.
bool start();

// A command that was enqueued.
void note(DeviceIndex device, StreamId stream, const std::string& name, cl::Event event);

// Returns when the commands so far, or the event, are over. Else raises AcceleratorError, or for a
// stream what check_interruption() throws.
void watch(Stream& stream);
void watch(const Stream& stream, const cl::Event& event);
void watch(const Device& device, const cl::Event& event);

// Waits of this thread are not interrupted: it holds a lock, and check_interruption() takes
// Python's, whose owner may wait for that lock.
struct Uninterrupted {
  Uninterrupted();
  ~Uninterrupted();
};

// For callers who cannot raise. False: a wait would not end.
bool ends(Stream& stream) noexcept;
bool ends(const Device& device, const cl::Event& event) noexcept;

// Whether a wait for the device was given up, and its commands are still unfinished.
bool is_stuck(const Device& device) noexcept;

// `check` throws if the user wants to end what runs (Ctrl-C). watch() calls it several times in a
// second.
void set_check_interruption(void (*check)());

}  // namespace ocl::watchdog
