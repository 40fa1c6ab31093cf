// Launches of pool3d.cl: pooling of volumes, and of images as volumes of depth 1.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/core/types/parameters.h"

namespace ocl {

using Triple = std::array<int64_t, 3>;

#include "kernels/pool/pool3d_parameters.clh"

enum class PoolWindows { kFixed, kAdaptive, kFractional };

// Describes the pooling of the last `dims` dimensions of `in` to the last `dims` dimensions of
// `pooled`.
Pool3 make_pool3(const at::Tensor& in, const at::Tensor& pooled, int64_t dims);

// Three numbers from a list of one or three; `other` for an empty list.
Triple triple(at::IntArrayRef values, Triple other);

// Whether a window has too many elements for one work-item of a GPU. A desktop's GPU is reset if a
// launch takes seconds.
bool has_long_windows(const at::Tensor& in, const Pool3& pool, PoolWindows windows);

// The number of loads, as the work for Arguments::enqueue().
double work_of(const Pool3& pool, PoolWindows windows);

// Runs the forward pass, or computes the volume's gradient from the pooled volume's gradient.
void avg_pool3(const char* op, const at::Tensor& from, const at::Tensor& to, const Pool3& pool,
               PoolWindows windows, bool backward);

// `random`: [planes][samples], only for fractional windows.
void max_pool3_forward(const char* op, const at::Tensor& in, const Pool3& pool, PoolWindows windows,
                       const at::Tensor& out, const at::Tensor& indices,
                       const at::Tensor& random = {});

// Adds each gradient to the element that was the maximum.
void max_pool3_backward(const at::Tensor& grad, const at::Tensor& indices,
                        const at::Tensor& grad_input, int64_t dims);

}  // namespace ocl
