// Tensors as kernels see them.
#pragma once

#include <ATen/core/TensorBase.h>

#include "backend/buffer_view.h"
#include "backend/stream.h"

namespace ocl {

// The device memory at a tensor's first element.
inline BufferView view(const at::TensorBase& tensor) { return resolve(tensor.const_data_ptr()); }

inline Device& ocl_device(const at::TensorBase& tensor) { return device(tensor.get_device()); }

// The stream on which work on the tensor goes now.
inline Stream& stream_of(const at::TensorBase& tensor) {
  return current_stream(tensor.get_device());
}

// Bytes from the first to behind the last element that the tensor reaches.
size_t extent_bytes(const at::TensorBase& tensor);

}  // namespace ocl
