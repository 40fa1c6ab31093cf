// Element-wise kernels over a TensorIterator. PyTorch has done promotion, broadcasting and memory
// order; here the iteration becomes one launch of a specialised kernel (pointwise.clh).
#pragma once

#include <ATen/native/TensorIterator.h>

#include <string_view>

#include "kernels/core/dtype.h"

namespace ocl {

struct PointwiseOp {
  std::string_view name;                     // of the kernel, for profiles and messages
  const char* expression;                    // in a, b, c, ... and s0, s1, ...
  const char* complex_expression = nullptr;  // the same for complex numbers, where there is one
  const char* header = nullptr;  // file of cl/ whose functions of single numbers are called
  // For float16 and bfloat16: the scalars are rounded to the type; one beyond its range raises.
  bool numbers_fit = false;
  // For float16 and bfloat16: a CPU scalar among the operands keeps the precision of float32.
  bool exact_operands = false;
};

// Runs the expression for every element. `compute` overrides the type that the kernel computes in;
// the default is the iterator's common type, or else the output's type.
void pointwise(at::TensorIteratorBase& iter, const PointwiseOp& op,
               c10::ArrayRef<c10::Scalar> scalars = {},
               std::optional<ScalarType> compute = std::nullopt);

}  // namespace ocl
