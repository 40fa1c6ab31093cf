// Programs that users write (torch.ocl.compile_kernel), and the arguments of their kernels. They
// use the same cache as our own programs.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "backend/program/program_cache.h"

namespace ocl {

struct KernelArgument {
  enum Space { kPrivate, kGlobal, kConstant, kLocal };
  std::string name, type;  // as in the source: "float*", "uint"
  Space space = kPrivate;
  bool is_const = false;

  // "__global const float* x", for messages.
  std::string text() const;
};

struct KernelSignature {
  std::string name;
  std::array<size_t, 3> group_size{};  // reqd_work_group_size; zeros: the kernel has none
  std::vector<KernelArgument> arguments;
};

struct UserProgram {
  const Program* program;
  const std::vector<KernelSignature>* kernels;
};

// Whether the source has #include lines outside of comments and strings.
bool includes_files(const std::string& source);

// Builds or loads the program, once for each source and options; RuntimeError with the driver's log
// when it cannot be built.
UserProgram user_program(Device& device, const std::string& source, const std::string& options);

// The signatures of the kernels of a program built with -cl-kernel-arg-info.
std::vector<KernelSignature> signatures_of(const cl::Program& program, const Device& device);

// The signatures as text, to store in front of a binary: some drivers have no argument info for a
// program made from a binary.
std::string put_signatures(const std::vector<KernelSignature>& kernels);
// Removes the signatures from the front of `stored`; raises when there are none.
std::vector<KernelSignature> take_signatures(std::string& stored);

}  // namespace ocl
