// Views a dense tensor as [outer][size][inner], for kernels that work along one dimension.
#pragma once

#include <ATen/core/TensorBase.h>

namespace ocl {

struct Extent {
  size_t outer = 1, size = 1, inner = 1;

  size_t numel() const { return outer * size * inner; }
};

// The extent of a contiguous tensor along `dim`, which is not negative.
inline Extent extent_of(const at::TensorBase& tensor, int64_t dim) {
  if (tensor.dim() == 0) return {};
  Extent extent{1, static_cast<size_t>(tensor.size(dim)), 1};
  for (int64_t d = 0; d < dim; ++d) extent.outer *= tensor.size(d);
  for (int64_t d = dim + 1; d < tensor.dim(); ++d) extent.inner *= tensor.size(d);
  return extent;
}

}  // namespace ocl
