// Fourier transforms along one dimension of a tensor.
#pragma once

#include <ATen/core/Tensor.h>

namespace ocl {

// The transform of a contiguous complex tensor, of any length, times `scale`. Contiguous.
at::Tensor fft_along(const at::Tensor& x, int64_t dim, bool forward, double scale);

// The forward transform of real rows of length n: the first n / 2 + 1 numbers, or all n.
// Contiguous.
at::Tensor fft_of_real_rows(const at::Tensor& x, bool onesided, double scale);

// The backward transform of contiguous rows of n / 2 + 1 complex numbers to n real ones.
at::Tensor fft_to_real_rows(const at::Tensor& x, int64_t n, double scale);

}  // namespace ocl
