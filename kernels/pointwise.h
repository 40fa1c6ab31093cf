// Element-wise kernels over a TensorIterator: promotion, broadcasting and memory order are
// PyTorch's work; here the iteration becomes one launch of a specialised kernel (cl/pointwise.clh).
#pragma once

#include <ATen/native/TensorIterator.h>

#include <string_view>

#include "kernels/dtype.h"

namespace ocl {

struct PointwiseOp {
  std::string_view name;                     // of the kernel, for profiles and messages
  const char* expression;                    // in a, b, c, ... and s0, s1, ...
  const char* complex_expression = nullptr;  // the same for complex numbers, where there is one
  const char* header = nullptr;  // of cl/, with functions of single numbers that are called
  // Of float16 and bfloat16 operators: whether the scalars must fit the type, and are rounded to
  // it, and whether a CPU scalar among the operands is not.
  bool numbers_fit = false;
  bool exact_operands = false;
};

// Runs the expression for every element. `compute` overrides the type that is computed in: by
// default the iterator's common type, else the output's.
void pointwise(at::TensorIteratorBase& iter, const PointwiseOp& op,
               c10::ArrayRef<c10::Scalar> scalars = {},
               std::optional<ScalarType> compute = std::nullopt);

}  // namespace ocl
