// The two sums in the gradients of normalisations, over the gradient g of the output.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/core/tensors/extent.h"

namespace ocl {

// Sum of g and of g * (x - mean) along each row of two dense tensors [rows][size]; the mean of row
// r is number r / repeat % mean.numel(). Returns [2][rows] in the compute type.
at::Tensor gradient_sums_of_rows(const at::Tensor& g, const at::Tensor& x, const at::Tensor& mean,
                                 size_t rows, size_t size, size_t repeat);

// Along each column of [size][columns]: sum of g, and of g * (x - mean) with a mean for each
// column, or, with rstd defined, of g * (x - mean) * rstd with both for each row. Returns
// [2][columns].
at::Tensor gradient_sums_of_columns(const at::Tensor& g, const at::Tensor& x,
                                    const at::Tensor& mean, const at::Tensor& rstd, size_t size,
                                    size_t columns);

}  // namespace ocl
