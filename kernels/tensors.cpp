#include "kernels/tensors.h"

namespace ocl {

size_t extent_bytes(const at::TensorBase& tensor) {
  if (tensor.numel() == 0) return 0;
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  return static_cast<size_t>(last + 1) * tensor.element_size();
}

}  // namespace ocl
