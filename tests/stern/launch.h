// Kernels keep their arguments here, since commands run late. The arguments of a command are set
// in a second kernel object of PoCL's when it runs.
#pragma once

#include <string>

#include "tests/stern/objects.h"

namespace stern {

struct KernelArgument {
  size_t size = 0;
  std::vector<char> value;       // empty: NULL, as for local memory
  std::weak_ptr<Buffer> buffer;  // kernels do not keep buffers alive
  bool set = false, is_buffer = false;
};

struct OfProgram {
  const Keep<Program> program;  // released after the kernel
};

struct Kernel : OfProgram, Object<cl_kernel, &cl_icd_dispatch::clReleaseKernel> {
  Kernel(cl_kernel handle, cl_program program)
      : OfProgram{Keep<Program>(program)}, Object(handle) {}
  ~Kernel();

  cl_kernel runner = nullptr;
  std::string name;
  size_t required_group[3] = {};  // reqd_work_group_size, or zeros
  size_t group_limit = 0;         // CL_KERNEL_WORK_GROUP_SIZE
  std::mutex mutex;               // guards the arguments
  std::vector<KernelArgument> arguments;
};

}  // namespace stern
