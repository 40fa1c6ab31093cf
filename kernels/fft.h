// Fourier transforms along one dimension of a tensor.
#pragma once

#include <ATen/core/Tensor.h>

namespace ocl {

// Times `scale`, contiguous, of any length. `x` is contiguous and complex.
at::Tensor fft_along(const at::Tensor& x, int64_t dim, bool forward, double scale);

// From contiguous real rows of length n to n / 2 + 1 numbers, or to all n; forward.
at::Tensor fft_of_real_rows(const at::Tensor& x, bool onesided, double scale);

// From contiguous rows of n / 2 + 1 numbers to n real ones; backward.
at::Tensor fft_to_real_rows(const at::Tensor& x, int64_t n, double scale);

}  // namespace ocl
