// The plan of a Fourier transform: the radices of its passes, and the tables that they read.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

namespace ocl {

constexpr int64_t kMaxRadix = 31;

// The radices of the passes; empty if a prime factor is greater than kMaxRadix.
std::vector<int64_t> radices_of(int64_t n);

// exp(2 pi i k / n) for k < n, on the tensor's device and of its (complex) type.
at::Tensor roots_of_unity(int64_t n, const at::TensorOptions& options);

// Bluestein's algorithm makes a transform of any length n a convolution of length m, because the
// exponent j k of a root of unity is (j^2 + k^2 - (k - j)^2) / 2.
struct Chirp {
  int64_t m;
  at::Tensor factors;   // exp(sign pi i k^2 / n) for k < n
  at::Tensor spectrum;  // the transform of their conjugates, wrapped around to length m
};

// `transform`: the forward transform of a tensor of one dimension, for lengths with radices.
Chirp chirp_of(int64_t n, bool forward, const at::TensorOptions& options,
               c10::function_ref<at::Tensor(const at::Tensor&)> transform);

}  // namespace ocl
