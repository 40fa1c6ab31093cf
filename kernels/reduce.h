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

// What becomes of the two parts of complex numbers: nothing; each is reduced by itself; or they are
// reduced together, to a real number.
enum class Parts { kNone, kKept, kReduced };

// `compute` overrides the type that is accumulated in: by default that of the output. With parts,
// it is that of a part, as for the expressions.
void reduce(at::TensorIterator& iter, const Reduction& op,
            std::optional<ScalarType> compute = std::nullopt, Parts parts = Parts::kNone);

}  // namespace ocl
