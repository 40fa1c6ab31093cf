// The rows of pointwise_table.h, for torch.compile (python/torch_ocl/inductor/codegen/formulas.py).
#pragma once

#include "kernels/pointwise/pointwise.h"

namespace ocl {

c10::ArrayRef<PointwiseOp> pointwise_rows();

}  // namespace ocl
