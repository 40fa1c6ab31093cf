// Means and variances along the middle of [outer][size][inner], in two launches: the first computes
// partial results, the second joins them and computes the results that the caller asks for.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/core/tensors/extent.h"
#include "kernels/core/types/dtype.h"

namespace ocl {

// Partial results: work is [2][parts][outputs] (means, squared deviations) in the compute type.
// A part covers `share` of the `size` elements of an output; the last part covers the remainder.
struct Moments {
  at::Tensor work;
  size_t outputs, parts, share, size;
};

// `x` is dense. `split`: split the reductions into parts if they are few and long.
Moments moments(const at::Tensor& x, const Extent& extent, bool split = true);

// Running statistics, updated at the end of a batch normalisation; undefined tensors: none.
struct Running {
  at::Tensor mean, var;
  double momentum = 0;
};

// Computes mean and rstd = 1 / sqrt(variance + eps), both dense and of one type.
void finish_norm(const Moments& moments, const at::Tensor& mean, const at::Tensor& rstd, double eps,
                 const Running& running = {});

// The same, but if the squares left the range of the type, rstd is NaN instead of 0. On the CPU
// most normalisations give NaN: group_norm does, but batch_norm gives 0.
void finish_group_norm(const Moments& moments, const at::Tensor& mean, const at::Tensor& rstd,
                       double eps);

}  // namespace ocl
