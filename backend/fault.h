// Errors that only a kernel can see, such as an index out of range. The kernel writes the site and
// the offending numbers into the stream's fault word and goes on with a harmless value; the next
// synchronisation of the stream raises the exception that CPU raises, and clears the word.
//
//   static const int site = ocl::fault_site({"aten::gather", FaultClass::kRuntime, "index"});
//   launch(stream, kernel, grid, ..., FaultArgument{site});
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "backend/device.h"

namespace ocl {

enum class FaultClass { kRuntime, kIndex };

// Text: "<op>: <what> <value> is out of bounds for <bound name> <bound>".
struct FaultSite {
  std::string op;
  FaultClass error;
  std::string what;
  std::string bound_name;
};

// Registers a site for the life of the process; call once per site (a function-local static).
int fault_site(FaultSite site);

// Passed to launch(): binds the stream's word and the site's number as two kernel arguments.
struct FaultArgument {
  int site;
};

class FaultWord {
 public:
  FaultWord(Device& device, const cl::CommandQueue& queue);

  // The buffer to bind; from now on check() looks at it.
  cl_mem arm();
  // Raises what a completed kernel reported. Costs nothing when no kernel was armed.
  void check();

 private:
  Device& device_;
  cl::CommandQueue queue_;
  std::mutex mutex_;
  cl::Buffer buffer_;
  std::atomic<cl_mem> handle_{nullptr};  // of buffer_; read without the mutex
  std::atomic<bool> armed_{false};
};

}  // namespace ocl
