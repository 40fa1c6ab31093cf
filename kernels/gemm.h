// Matrix products: out = activation(alpha * A B + beta * C), for one matrix or a batch.
#pragma once

#include <ATen/core/Tensor.h>

namespace ocl {

// As the kernels number them (cl/epilogue.clh).
enum class Activation : uint8_t { kNone, kRelu, kGelu, kGeluTanh };

// All tensors are 2-dimensional, or 3-dimensional with the batch first, and of one type on one
// device. `c` is broadcast to out's shape; it is not read where beta is 0. Any strides. Of complex
// matrices, lazily conjugated ones too. Activations are for real numbers, gelu for floats.
void gemm(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const c10::Scalar& alpha,
          const at::Tensor& c, const c10::Scalar& beta, Activation activation = Activation::kNone);

}  // namespace ocl
