// Reductions over a TensorIterator whose output has stride 0 along the reduced dimensions.
#pragma once

#include <ATen/native/TensorIterator.h>

#include <string_view>

#include "kernels/dtype.h"

namespace ocl {

// Expressions in OpenCL C; see reduce_table.h.
struct Reduction {
  std::string_view name;
  const char* init;
  const char* step;
  const char* merge;
  const char* finish;
};

// `compute` overrides the type that is accumulated in: by default that of the output.
void reduce(at::TensorIterator& iter, const Reduction& op,
            std::optional<ScalarType> compute = std::nullopt);

}  // namespace ocl
