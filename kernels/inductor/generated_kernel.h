// Launches of kernels that Inductor generated, from Python (python/generated_kernel) and from
// compiled C++ programs (kernels/inductor/program_interface).
#pragma once

#include <string>

#include "backend/launch/launch.h"
#include "torch_ocl/program_interface.h"

namespace ocl {

class GeneratedKernel {
 public:
  // `file`: an absolute path, or the result of add_runtime_source().
  // `signature`: a letter for each argument of a call: b (address of a tensor's data), l (integer),
  // d (double), s (float). f is no argument of the call: the kernel gets the stream's fault word
  // (fault.h), the first f for indices out of range, the second f for integer division by zero.
  // `shape`: t (each of a few tasks loops over a share of the units), i (a work-item for each
  // unit), g (a work-group for each unit).
  GeneratedKernel(std::string name, std::string file, std::string signature, char shape,
                  size_t local_size);

  const std::string& name() const { return source_->kernel; }
  const std::string& signature() const { return signature_; }
  size_t arguments() const { return arguments_; }  // arguments per call

  // Launches on the device of the first argument, which must be an address. `cost`: in elements.
  void launch(const OclArgument* arguments, int64_t units, int64_t cost) const;

 private:
  // Never freed: its address identifies the kernel, and no later one may get the same address.
  const KernelSource* source_;
  std::string signature_;
  size_t arguments_;
  size_t local_size_;
  int fault_;
  char shape_;
};

}  // namespace ocl
