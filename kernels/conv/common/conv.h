// Convolution and its gradients in up to three spatial dimensions. `in` and `out` always mean the
// input and output of the forward convolution. A transposed convolution is the data gradient of an
// ordinary one.
#pragma once

#include <array>

#include "kernels/matmul/epilogue.h"

namespace ocl {

struct ConvShape {
  using Dims = std::array<int32_t, 3>;  // depth, height, width; missing ones are 1

  int32_t images, groups;
  int32_t in_channels, out_channels;  // channels of one group
  Dims in, out, kernel, stride, pad, dilation;

  bool operator==(const ConvShape&) const = default;
  // Whether each result's only tap is the input at the same position. The sizes must be equal, too:
  // a stride that is not used is also 1, but then the input has more pixels.
  bool is_pointwise() const {
    const Dims ones{1, 1, 1};
    return kernel == ones && stride == ones && pad == Dims{} && in == out;
  }
  int64_t taps() const { return int64_t{in_channels} * kernel[0] * kernel[1] * kernel[2]; }
  // The number of multiply-adds, which is the same in each direction.
  double work() const {
    return static_cast<double>(taps()) * images * groups * out_channels * out[0] * out[1] * out[2];
  }
};

// The memory format of a convolution's result and of both gradients.
at::MemoryFormat convolution_format(const at::Tensor& input, const at::Tensor& weight);

// Runs the operator and an epilogue. If there is an epilogue, the result is contiguous, and the
// residual must be.
at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, int64_t groups, const Epilogue& epilogue);

}  // namespace ocl
