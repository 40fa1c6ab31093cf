// Pooling of images, contiguous or channels_last: the launches of pool.clh's kernels.
#pragma once

#include <ATen/core/Tensor.h>

namespace ocl {

#include "kernels/pool/pool_parameters.clh"

// The pooling from an image `in` (C, H, W or N, C, H, W) to `pooled`, which has the layout of `in`.
// Its windows are single elements.
Pool make_pool(const at::Tensor& in, const at::Tensor& pooled);

void max_pool(const at::Tensor& self, const Pool& pool, bool adaptive, const at::Tensor& out,
              const at::Tensor& indices);
// Adds each gradient to the element that was the maximum.
void max_pool_backward(const at::Tensor& grad, const at::Tensor& self, const Pool& pool,
                       bool adaptive, const at::Tensor& indices, const at::Tensor& grad_input);
void avg_pool(const at::Tensor& self, const Pool& pool, bool adaptive, const at::Tensor& out);
void avg_pool_backward(const at::Tensor& grad, const Pool& pool, bool adaptive,
                       const at::Tensor& grad_input);

}  // namespace ocl
