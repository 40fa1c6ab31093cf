// The stern device: an OpenCL layer (cl_khr_layers) over PoCL that answers like the GPU of a
// profile, enforces its limits, and keeps the rules of OpenCL that CPU runtimes forgive. See
// docs/stern.md.
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#define CL_USE_DEPRECATED_OPENCL_2_1_APIS
#define CL_USE_DEPRECATED_OPENCL_2_2_APIS
#include <CL/cl_layer.h>

#include <string>

namespace stern {

// PoCL's entry points.
inline const cl_icd_dispatch* next = nullptr;

// The place where a command was enqueued, or a map began.
struct Stack {
  static constexpr int kDepth = 24;
  void* frames[kDepth];
  int depth = 0;

  static Stack here();
  void print() const;
};

// A line on stderr, with "stern: " before it.
void say(const std::string& text);

// For what is undefined behaviour on a device: prints the text and the stacks, and aborts.
[[noreturn]] void abort_with(const std::string& text, const Stack* first, const char* first_title,
                             const Stack* second = nullptr, const char* second_title = nullptr);

// Prints why a call is refused; returns the code.
cl_int refuse(cl_int code, const std::string& text);

std::string environment(const char* name, const std::string& otherwise = "");

}  // namespace stern
