// Matrix products: out = activation(alpha * A B + beta * C + residual), for one matrix or a batch.
#pragma once

#include "kernels/matmul/epilogue.h"

namespace ocl {

// Raises for types that have no products on the CPU: bool, and unsigned integers other than uint8.
void check_has_products(const Device& device, ScalarType type, std::string_view op);

// All tensors are on one device, and have 2 dimensions, or 3 with the batch first. They have one
// type, except that factors of float16 and bfloat16 may have a float32 result, and of int8 an int32
// result. `c` has the result's type and is broadcast to out's shape; it is not read if beta is 0.
// Strides are arbitrary, and complex matrices may be lazily conjugated. Epilogues need real
// numbers, and all except relu need floats.
void gemm(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const c10::Scalar& alpha,
          const at::Tensor& c, const c10::Scalar& beta, const Epilogue& epilogue = {});

}  // namespace ocl
