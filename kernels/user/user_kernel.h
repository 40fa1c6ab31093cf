// Kernels that users write (torch.ocl.compile_kernel). The values of a call are checked against the
// kernel's declaration.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "backend/launch/launch.h"
#include "backend/program/user_program.h"

namespace ocl {

struct LocalMemory {
  size_t bytes;
};

// None, a tensor, one number or the lanes of a vector, local memory, or the bytes of a struct.
using KernelValue =
    std::variant<std::monostate, at::Tensor, std::vector<at::Scalar>, LocalMemory, std::string>;

// Sizes of 1 to 3 dimensions.
struct KernelRange {
  std::optional<std::vector<int64_t>> threads, group_size;
  bool strided = false;  // accepts tensors with gaps: the kernel knows the strides
};

class UserArguments;

// A library of kernels from a source, which is built for each device at its first use there.
class UserLibrary {
 public:
  UserLibrary(std::string source, std::string options)
      : source_(std::move(source)), options_(std::move(options)) {}

  const std::vector<KernelSignature>& kernels(Device& device) { return *program(device).kernels; }

  // Enqueues the kernel on the current stream of the tensors' device; without tensors, of the
  // current device. TypeError or ValueError if the values do not fit.
  void call(const std::string& kernel, const std::vector<KernelValue>& values,
            const KernelRange& range);

 private:
  // The size in bytes of a type that the source declares.
  size_t size_of(Device& device, const std::string& type);
  void check_structs(Device& device, const UserArguments& arguments,
                     const KernelSignature& signature, const std::vector<KernelValue>& values);
  const UserProgram& program(Device& device);

  const std::string source_, options_;
  std::mutex mutex_;  // guards the members below
  std::map<DeviceIndex, UserProgram> programs_;
  std::map<std::pair<DeviceIndex, std::string>, size_t> sizes_;
};

}  // namespace ocl
