// Element-wise kernels over a TensorIterator. PyTorch does promotion, broadcasting and memory
// order; this makes the iteration one launch of a specialised kernel (pointwise.clh).
#pragma once

#include <ATen/native/TensorIterator.h>

#include <string_view>

#include "kernels/core/types/dtype.h"

namespace ocl {

enum PointwiseTraits : unsigned {
  kAnyType = 0,
  // Types that the operator refuses, as on the CPU. Complex types need an expression of their own.
  kFloating = 1,  // takes floating-point numbers only
  kIntegral = 2,  // takes integers and bool only
  kNotBool = 4,
  kTruth = 8,     // the result is 0 or 1, which no conversion rounds
  kDivides = 16,  // for integers, a second operand of 0 raises
  // For float16 and bfloat16:
  kNumbersFit = 32,     // the scalars are rounded to the type; one beyond its range raises
  kExactOperands = 64,  // a CPU scalar among the operands keeps the precision of float32
  kConverts = 128,      // takes types that kernels only convert (float8.h), one kind at a time
};

struct PointwiseOp {
  std::string_view name;                     // the kernel's name in profiles and messages
  const char* expression;                    // uses a, b, c, ... and s0, s1, ...
  unsigned traits = kAnyType;                // PointwiseTraits
  const char* complex_expression = nullptr;  // for complex numbers; nullptr: none
  const char* header = nullptr;              // a file of functions/

  bool has(PointwiseTraits trait) const { return (traits & trait) != 0; }
};

// Runs the expression for every element. `compute` overrides the type that the kernel computes in;
// the default is the iterator's common type, or else the output's type.
void pointwise(at::TensorIteratorBase& iter, const PointwiseOp& op,
               c10::ArrayRef<c10::Scalar> scalars = {},
               std::optional<ScalarType> compute = std::nullopt);

}  // namespace ocl
