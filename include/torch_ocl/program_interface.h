// The functions of torch_ocl for C++ programs that Inductor generates (cpp_wrapper, AOTInductor).
// The programs are not linked against torch_ocl: the operator ocl::program_interface() returns the
// address of an OclProgramInterface. Packages may be older than the library, so a change of
// the interface must increase the version.
#ifndef TORCH_OCL_PROGRAM_INTERFACE_H
#define TORCH_OCL_PROGRAM_INTERFACE_H

#include <cstddef>
#include <cstdint>

inline constexpr int64_t kOclInterfaceVersion = 2;

// The kernel's signature says which member is used.
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
    int64_t integer;     // also for a boolean, and for a device's type
    double real;
    const char* text;
    const OclValue* items;
  };
  int64_t count;  // the number of items, or a device's index
};

// Functions with the type `const char*` return nullptr or an error message, which is valid until
// the thread's next call.
struct OclProgramInterface {
  int64_t version;
  // The kernel lives as long as the process; the same description gives the same kernel.
  const char* (*make_kernel)(const OclKernelDescription* description, const void** kernel);
  const char* (*launch)(const void* kernel, const OclArgument* arguments, int64_t units,
                        int64_t cost);
  // Allocates memory of the current device.
  const char* (*allocate)(size_t bytes, void** address);
  const char* (*release)(void* address);
  const char* (*upload)(void* device, const void* host, size_t bytes);
  const char* (*copy)(void* destination, const void* source, size_t bytes);
  const char* (*find_operator)(const char* name, const char* overload, const void** found);
  // Calls the operator through the dispatcher, below autograd. `results` gets a new tensor
  // (AtenTensorHandle) for each returned tensor, also those in lists, and nullptr for other values.
  const char* (*call)(const void* found, const OclValue* arguments, int64_t count, void** results,
                      int64_t result_count);
};

#endif  // TORCH_OCL_PROGRAM_INTERFACE_H
