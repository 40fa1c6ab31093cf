// Element-wise steps of larger operators, with expressions that are not operators of PyTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/pointwise/pointwise.h"

namespace ocl {

// out = op(inputs), broadcast to the shape of `out`. The kernel computes in the type `compute`,
// whatever the types of the tensors are.
void evaluate(const PointwiseOp& op, const at::Tensor& out, at::ArrayRef<at::Tensor> inputs,
              ScalarType compute, c10::ArrayRef<c10::Scalar> scalars = {});

}  // namespace ocl
