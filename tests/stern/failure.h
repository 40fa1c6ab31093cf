// Failures on demand: STERN_FAIL=entry:n:code[,entry:n:code...] makes the n-th call of an entry
// point return the code. "execution" counts the commands that the device begins to run.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "tests/stern/stern.h"

namespace stern {

class CallCount {
 public:
  // Counts a call; returns the code with which it has to fail, or CL_SUCCESS.
  cl_int count();
  void reset();
  void add_failure(unsigned long n, cl_int code) { failures_.push_back({n, code}); }
  unsigned long calls() const { return calls_; }

 private:
  struct Failure {
    unsigned long n;
    cl_int code;
  };
  std::atomic<unsigned long> calls_{0};
  std::vector<Failure> failures_;
};

// The count of an entry point, for the life of the process.
CallCount& call_count(const std::string& entry);

// Reads STERN_FAIL, and begins to count anew.
void load_failures();

}  // namespace stern
