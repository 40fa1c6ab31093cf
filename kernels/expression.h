// Element-wise expressions over tensors that no operator of PyTorch stands for: parts of larger
// operators of ours.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/pointwise.h"

namespace ocl {

// out = op(inputs), broadcast to the shape of out, computed in `compute` whatever the types are.
void evaluate(const PointwiseOp& op, const at::Tensor& out, at::ArrayRef<at::Tensor> inputs,
              ScalarType compute, c10::ArrayRef<c10::Scalar> scalars = {});

}  // namespace ocl
