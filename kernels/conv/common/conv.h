// Convolution and its gradients in up to three spatial dimensions. `in` and `out` always are the
// sides of the forward convolution. A transposed convolution is the data gradient of an ordinary
// one.
#pragma once

#include <array>

#include "kernels/matmul/epilogue.h"

namespace ocl {

struct ConvShape {
  using Dims = std::array<int32_t, 3>;  // depth, height, width; 1 where there are fewer

  int32_t images, groups;
  int32_t in_channels, out_channels;  // of one group
  Dims in, out, kernel, stride, pad, dilation;

  bool operator==(const ConvShape&) const = default;
  int64_t taps() const { return int64_t{in_channels} * kernel[0] * kernel[1] * kernel[2]; }
};

// The operator and an epilogue. If the epilogue is not empty, the result is contiguous, and so must
// be the residual.
at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, int64_t groups, const Epilogue& epilogue);

// All tensors contiguous and of one type; `bias` may be undefined. The epilogue follows the bias.
void conv_forward(const ConvShape& shape, const at::Tensor& output, const at::Tensor& input,
                  const at::Tensor& weight, const at::Tensor& bias, const Epilogue& epilogue = {});
void conv_data_grad(const ConvShape& shape, const at::Tensor& input, const at::Tensor& output,
                    const at::Tensor& weight, const at::Tensor& bias);
void conv_weight_grad(const ConvShape& shape, const at::Tensor& weight, const at::Tensor& input,
                      const at::Tensor& output);

// The fast convolutions of the CPU family, float32 only: the algorithms below, then
// conv_cpu.cl. Each returns false, and has launched nothing, where no algorithm
// applies; then conv_gpu.h and kernels/conv/conv_plain.cl follow.
bool conv_forward_cpu(const ConvShape& shape, const at::Tensor& output, const at::Tensor& input,
                      const at::Tensor& weight, const at::Tensor& bias, const Epilogue& epilogue);
bool conv_data_grad_cpu(const ConvShape& shape, const at::Tensor& input, const at::Tensor& output,
                        const at::Tensor& weight, const at::Tensor& bias);
bool conv_weight_grad_cpu(const ConvShape& shape, const at::Tensor& weight, const at::Tensor& input,
                          const at::Tensor& output);

// conv_depthwise.cl: one channel per group.
bool conv_depthwise_forward(const ConvShape& shape, const at::Tensor& output,
                            const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& bias);
bool conv_depthwise_data_grad(const ConvShape& shape, const at::Tensor& input,
                              const at::Tensor& output, const at::Tensor& weight,
                              const at::Tensor& bias);
bool conv_depthwise_weight_grad(const ConvShape& shape, const at::Tensor& weight,
                                const at::Tensor& input, const at::Tensor& output);

// conv_broadcast.cl: vectors of channels, for small planes and for the weight
// gradient.
bool conv_broadcast_forward(const ConvShape& shape, const at::Tensor& output,
                            const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& bias, const Epilogue& epilogue);
bool conv_broadcast_data_grad(const ConvShape& shape, const at::Tensor& input,
                              const at::Tensor& output, const at::Tensor& weight,
                              const at::Tensor& bias);
bool conv_broadcast_weight_grad(const ConvShape& shape, const at::Tensor& weight,
                                const at::Tensor& input, const at::Tensor& output);

// conv_winograd.cl: kernels of 3x3 with stride 1.
bool conv_winograd_forward(const ConvShape& shape, const at::Tensor& output,
                           const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& bias, const Epilogue& epilogue);
bool conv_winograd_data_grad(const ConvShape& shape, const at::Tensor& input,
                             const at::Tensor& output, const at::Tensor& weight,
                             const at::Tensor& bias);

}  // namespace ocl
