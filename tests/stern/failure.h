// Failures on demand: STERN_FAIL=entry:n:code[,entry:n:code...] makes the n-th call of an entry
// point return the code; with n+, every call from the n-th on. "execution" counts the commands that
// the device begins to run; its code may be "hang": the command does not end before the failures
// are replaced. A program that has loaded the layer can change the failures while it
// runs, and ask what was called and what is alive (the functions below, by ctypes for example).
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/stern/stern.h"

namespace stern {

inline constexpr cl_int kHang = 1;

struct Failure {
  unsigned long first = 0;
  bool all_later = false;
  cl_int code = CL_SUCCESS;
};

class CallCount {
 public:
  // Counts a call; returns the code with which it has to fail, or CL_SUCCESS.
  cl_int count();
  // Counts from 0, and fails as listed.
  void reset(std::vector<Failure> failures);
  unsigned long calls();
  unsigned long failed();

 private:
  std::mutex mutex_;
  unsigned long calls_ = 0, failed_ = 0;
  std::vector<Failure> failures_;
};

// The count of an entry point, for the life of the process.
CallCount& call_count(const std::string& entry);

// Entry points that were called since the last load_failures(), with the number of calls.
std::map<std::string, unsigned long> calls();

// How often the failures have been replaced; returns when it is no longer `before`.
unsigned long replacements();
void hang(unsigned long before);

// Reads STERN_FAIL, and begins to count anew.
void load_failures();

}  // namespace stern

extern "C" {

// Replaces the failures by others in the form of STERN_FAIL, and begins to count anew. False: the
// text is wrong, and nothing changes.
bool stern_fail(const char* failures);
// Calls of an entry point since then, and how many of all entry points' calls failed on demand.
unsigned long stern_calls(const char* entry);
unsigned long stern_failed();
// Objects that the program holds: "contexts", "queues", "buffers", "programs", "kernels", "events";
// "maps" that were not unmapped.
unsigned long stern_alive(const char* objects);

}  // extern "C"
