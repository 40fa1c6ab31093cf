// Kernels that Inductor has written, and their launch: from Python (python/generated_kernel) and
// from programs in C++ (kernels/program_interface).
#pragma once

#include <string>

#include "backend/launch.h"
#include "torch_ocl/program_interface.h"

namespace ocl {

class GeneratedKernel {
 public:
  // `file`: an absolute path, or of add_runtime_source(). `signature`: a letter for each argument
  // of a call: b (address of a tensor's data), l (integer), d (float); f, without an argument,
  // where the kernel takes the word for index errors. `shape`: how units are given to work-items:
  // t (each of a few tasks loops over its share), i (an item for each), g (a group for each).
  GeneratedKernel(std::string name, std::string file, std::string signature, char shape,
                  size_t local_size);

  const std::string& name() const { return source_.kernel; }
  const std::string& signature() const { return signature_; }
  size_t arguments() const { return arguments_; }  // of a call

  // On the device of the first argument, which must be an address. `cost`: in elements.
  void launch(const OclArgument* arguments, int64_t units, int64_t cost) const;

 private:
  KernelSource source_;
  std::string signature_;
  const Site* site_;
  size_t arguments_;
  size_t local_size_;
  int fault_;
  char shape_;
};

}  // namespace ocl
