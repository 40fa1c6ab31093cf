// Matrix products: out = activation(alpha * A B + beta * C + residual), for one matrix or a batch.
#pragma once

#include "kernels/matmul/epilogue.h"

namespace ocl {

// Raises for types that have no products on the CPU: bool, and unsigned integers but uint8.
void check_has_products(const Device& device, ScalarType type, std::string_view op);

// All tensors are 2-dimensional, or 3-dimensional with the batch first, and of one type on one
// device, except that factors of float16 and bfloat16 may have a float32 result, of int8 an int32
// one. `c` has the result's type, and is broadcast to out's shape; it is not read where beta is 0.
// Strides are arbitrary, and complex matrices may be lazily conjugated. Epilogues need real
// numbers, and all but relu need floats.
void gemm(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const c10::Scalar& alpha,
          const at::Tensor& c, const c10::Scalar& beta, const Epilogue& epilogue = {});

}  // namespace ocl
