// Finds a tensor's device, stream and memory for launches.
#pragma once

#include <ATen/core/Tensor.h>

#include "backend/device/buffer_view.h"
#include "backend/queue/stream.h"

namespace ocl {

inline bool on_ocl(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_privateuseone();
}

inline Device& ocl_device(const at::TensorBase& tensor) { return device(tensor.get_device()); }

// The device memory at a tensor's first element. Raises where a tensor with elements has no memory,
// as after UntypedStorage.resize_(0).
inline BufferView view(const at::TensorBase& tensor) {
  const void* address = tensor.const_data_ptr();
  if (C10_UNLIKELY(!address && tensor.numel() == 0)) return placeholder(ocl_device(tensor));
  return resolve(address);
}

// The current stream of the tensor's device.
inline Stream& stream_of(const at::TensorBase& tensor) {
  return current_stream(tensor.get_device());
}

// Raises for a tensor of another type. These kernels have one type for all operands, and PyTorch
// does not check.
void expect_type(const at::Tensor& tensor, at::ScalarType type, std::string_view op);

// A contiguous tensor, for kernels without strides; undefined if the optional tensor is absent.
inline at::Tensor dense(const std::optional<at::Tensor>& tensor) {
  return tensor && tensor->defined() ? tensor->contiguous() : at::Tensor();
}

// The tensor itself if its rows are dense, else a contiguous copy.
inline at::Tensor with_dense_rows(const at::Tensor& tensor) {
  return tensor.stride(-1) == 1 || tensor.size(-1) == 1 ? tensor : tensor.contiguous();
}

// A contiguous tensor for a kernel to write. It is the output itself if that is contiguous, else a
// temporary that finish() copies to the output.
class DenseOutput {
 public:
  explicit DenseOutput(const at::Tensor& out);
  const at::Tensor& tensor() const { return dense_; }
  void finish() const;

 private:
  at::Tensor out_, dense_;
};

// Bytes from the first element in memory to the end of the last.
size_t extent_bytes(const at::TensorBase& tensor);

}  // namespace ocl
