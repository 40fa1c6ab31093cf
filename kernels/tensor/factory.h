// Creates ocl tensors.
#pragma once

#include <ATen/core/Tensor.h>

namespace ocl {

// Uninitialised tensors on the device of `options`, for the generated wrappers.
at::TensorBase empty_tensor(c10::IntArrayRef size, const c10::TensorOptions& options);
at::TensorBase empty_strided_tensor(c10::IntArrayRef size, c10::IntArrayRef stride,
                                    const c10::TensorOptions& options);

}  // namespace ocl
