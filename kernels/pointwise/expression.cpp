#include "kernels/pointwise/expression.h"

namespace ocl {

void evaluate(const PointwiseOp& op, const at::Tensor& out, at::ArrayRef<at::Tensor> inputs,
              ScalarType compute, c10::ArrayRef<c10::Scalar> scalars) {
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).check_all_same_dtype(false).resize_outputs(false);
  config.add_output(out);
  for (const at::Tensor& input : inputs) config.add_const_input(input);
  at::TensorIterator iter = config.build();
  pointwise(iter, op, scalars, compute);
}

}  // namespace ocl
