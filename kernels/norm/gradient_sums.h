// The two sums that the gradients of normalisations need; g is the gradient of the output.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/core/tensors/extent.h"

namespace ocl {

// The sums of g and of g * (x - mean) along each row of two dense tensors [rows][size]. The mean of
// row r is mean[r / repeat % mean.numel()]. Returns [2][rows] in the compute type.
at::Tensor gradient_sums_of_rows(const at::Tensor& g, const at::Tensor& x, const at::Tensor& mean,
                                 size_t rows, size_t size, size_t repeat);

// Sums along each column of [size][columns]: of g, and of g * (x - mean) with a mean for each
// column. If rstd is defined, the second sum is of g * (x - mean) * rstd, with mean and rstd for
// each row. Returns [2][columns].
at::Tensor gradient_sums_of_columns(const at::Tensor& g, const at::Tensor& x,
                                    const at::Tensor& mean, const at::Tensor& rstd, size_t size,
                                    size_t columns);

}  // namespace ocl
