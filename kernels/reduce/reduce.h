// Reductions over a TensorIterator whose output has stride 0 along the reduced dimensions.
#pragma once

#include <ATen/native/TensorIterator.h>

#include <string_view>

#include "kernels/core/types/dtype.h"

namespace ocl {

// Expressions in OpenCL C; see reduce_table.h.
struct Reduction {
  std::string_view name;
  double neutral;  // infinite: the largest or least number of the type
  const char* step;
  const char* merge;
  const char* finish;
};

// How complex numbers are reduced. kNone: as complex numbers. kKept: real and imaginary parts
// separately.
enum class Parts { kNone, kKept };

// `compute` overrides the type of the accumulator; the default is the output's type. With parts it
// is the type of a part, and so is the expressions' `a`.
void reduce(at::TensorIterator& iter, const Reduction& op,
            std::optional<ScalarType> compute = std::nullopt, Parts parts = Parts::kNone);

}  // namespace ocl
