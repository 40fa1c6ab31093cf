// What programs in C++ that Inductor has written (cpp_wrapper, AOTInductor) call of torch_ocl.
// They are not linked against it: the operator ocl::program_interface() gives them the address of
// an OclProgramInterface, wherever the library lies. Packages may be older than the library:
// whoever changes anything here counts the version up.
#pragma once

#include <cstddef>
#include <cstdint>

constexpr int64_t kOclInterfaceVersion = 1;

// Which of them counts is what a kernel's signature says.
union OclArgument {
  void* address;
  int64_t integer;
  double real;
};

struct OclKernelDescription {
  const char* name;
  const char* source;
  const char* signature;
  char shape;
  int64_t local_size;
};

// An argument of an operator. Numbers of element types, layouts and memory formats are integers.
struct OclValue {
  enum Kind : int64_t { kNone, kTensor, kInteger, kReal, kBoolean, kText, kDevice, kList };
  Kind kind;
  union {
    const void* tensor;  // AtenTensorHandle
    int64_t integer;     // also of a boolean, and a device's type
    double real;
    const char* text;
    const OclValue* items;
  };
  int64_t count;  // of items, or a device's index
};

// Functions with a text as result return nullptr, or what went wrong; the text stays until the
// thread's next call.
struct OclProgramInterface {
  int64_t version;
  // A kernel for the life of the process; the same description gives the same kernel.
  const char* (*make_kernel)(const OclKernelDescription* description, const void** kernel);
  const char* (*launch)(const void* kernel, const OclArgument* arguments, int64_t units,
                        int64_t cost);
  // Memory of the current device.
  const char* (*allocate)(size_t bytes, void** address);
  const char* (*release)(void* address);
  const char* (*upload)(void* device, const void* host, size_t bytes);
  const char* (*copy)(void* destination, const void* source, size_t bytes);
  const char* (*find_operator)(const char* name, const char* overload, const void** found);
  // Calls it through the dispatcher, below autograd. `results` get a new tensor (AtenTensorHandle)
  // for each that the operator returns, also in lists, and nullptr for what else it returns.
  const char* (*call)(const void* found, const OclValue* arguments, int64_t count, void** results,
                      int64_t result_count);
};
