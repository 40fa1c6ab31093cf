#include "kernels/core/tensors/tensors.h"

#include <ATen/ops/empty.h>

namespace ocl {

DenseOutput::DenseOutput(const at::Tensor& out)
    : out_(out), dense_(out.is_contiguous() ? out : at::empty(out.sizes(), out.options())) {}

void DenseOutput::finish() const {
  if (!dense_.is_same(out_)) out_.copy_(dense_);
}

void expect_type(const at::Tensor& tensor, at::ScalarType type, std::string_view op) {
  TORCH_CHECK(tensor.scalar_type() == type, "expected scalar type ", type, " but found ",
              tensor.scalar_type(), " (", op, " on ", ocl_device(tensor).label(), ")");
}

size_t extent_bytes(const at::TensorBase& tensor) {
  if (tensor.numel() == 0) return 0;
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  return static_cast<size_t>(last + 1) * tensor.element_size();
}

}  // namespace ocl
