// The arguments of one launch of a user's kernel: checks them and converts them for OpenCL.
#pragma once

#include <list>

#include "kernels/user/user_kernel.h"

namespace ocl {

class UserArguments {
 public:
  UserArguments(const KernelSignature& kernel, const std::vector<KernelValue>& values,
                bool strided);

  // The device of the tensors; nullopt when there are none.
  std::optional<DeviceIndex> device() const;
  // The number of elements of the first tensor.
  std::optional<int64_t> first_numel() const;

  // "scale(): argument 1 (__global float* y)", for messages.
  std::string what(size_t position) const;

  // Sets the kernel's arguments for a launch on a stream of their device.
  void bind(Stream& stream, Arguments& arguments);
  // Call after the launch: records the use on the stream, and copies back tensors that were passed
  // as copies.
  void launched(Stream& stream);

 private:
  struct TensorArgument {
    size_t position;
    at::Tensor tensor;
    at::Tensor passed;  // a copy if the device cannot make a sub-buffer that begins there
    bool writable;
  };
  void check_tensor(size_t position, const at::Tensor& tensor, bool strided) const;
  cl::Buffer buffer_of(Stream& stream, TensorArgument& argument);
  bool same_memory(const TensorArgument& a, const TensorArgument& b) const;
  void check_overlap(const TensorArgument& copied) const;

  const KernelSignature& kernel_;
  const std::vector<KernelValue>& values_;
  std::list<TensorArgument> tensors_;
  std::list<cl::Buffer> buffers_;  // kept until the launch: kernels retain nothing
};

}  // namespace ocl
