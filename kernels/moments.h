// Means and variances along the middle of [outer][size][inner], in two launches: partial results,
// then their join, which finishes in the way that the caller needs.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/dtype.h"
#include "kernels/extent.h"

namespace ocl {

// Partial results: work is [2][parts][outputs] (means, squared deviations) in the compute type.
// Part p has `share` of the `size` elements behind an output, the last one what is left.
struct Moments {
  at::Tensor work;
  size_t outputs, parts, share, size;
};

// Of a dense tensor. `split`: whether to cut few long reductions into parts.
Moments moments(const at::Tensor& x, const Extent& extent, bool split = true);

// Running statistics, updated at the end of a batch normalisation; undefined tensors: none.
struct Running {
  at::Tensor mean, var;
  double momentum = 0;
};

// mean and 1 / sqrt(variance + eps), both dense and of one type.
void finish_norm(const Moments& moments, const at::Tensor& mean, const at::Tensor& rstd, double eps,
                 const Running& running = {});

}  // namespace ocl
