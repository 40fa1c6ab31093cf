// Launches of pool3d.cl: pooling of volumes, and of images as volumes of depth 1.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

namespace ocl {

using Triple = std::array<int64_t, 3>;

// Mirrors Pool3 of pool3d.cl.
struct Pool3 {
  int64_t planes;
  Triple in, out, kernel = {1, 1, 1}, stride = {1, 1, 1}, pad = {0, 0, 0}, dilation = {1, 1, 1};
  int64_t divisor = 0, count_padding = 0;
  int64_t samples = 0;
  Triple sample = {0, 0, 0};
};

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
