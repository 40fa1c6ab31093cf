// Complex matrix products, computed by real matrix products.
#pragma once

#include <ATen/core/Tensor.h>

namespace ocl {

// Same as gemm(), for complex types.
void gemm_complex(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                  const c10::Scalar& alpha, const at::Tensor& c, const c10::Scalar& beta);

}  // namespace ocl
