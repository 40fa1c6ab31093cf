// Convolution and its gradients, up to three spatial dimensions; the sides are those of the
// forward convolution: `in` is its input, `out` its output. A transposed convolution is the data
// gradient of an ordinary one.
#pragma once

#include <array>

#include "kernels/epilogue.h"

namespace ocl {

struct ConvShape {
  using Dims = std::array<int32_t, 3>;  // depth, height, width; 1 where there are fewer

  int32_t images, groups;
  int32_t in_channels, out_channels;  // of one group
  Dims in, out, kernel, stride, pad, dilation;

  bool operator==(const ConvShape&) const = default;
  int64_t taps() const { return int64_t{in_channels} * kernel[0] * kernel[1] * kernel[2]; }
};

// The operator, with what follows it. The result is contiguous where the epilogue is not empty; a
// residual is, too.
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

// The kernels of cl/conv_cpu.cl and cl/conv_depthwise.cl: float32, CPU family. Each returns false
// where they do not apply; then the plain ones of cl/conv_plain.cl run.
bool conv_forward_cpu(const ConvShape& shape, const at::Tensor& output, const at::Tensor& input,
                      const at::Tensor& weight, const at::Tensor& bias, const Epilogue& epilogue);
bool conv_data_grad_cpu(const ConvShape& shape, const at::Tensor& input, const at::Tensor& output,
                        const at::Tensor& weight, const at::Tensor& bias);
bool conv_weight_grad_cpu(const ConvShape& shape, const at::Tensor& weight, const at::Tensor& input,
                          const at::Tensor& output);

// Those of cl/conv_depthwise.cl; the ones above try them first.
bool conv_depthwise_forward(const ConvShape& shape, const at::Tensor& output,
                            const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& bias);
bool conv_depthwise_data_grad(const ConvShape& shape, const at::Tensor& input,
                              const at::Tensor& output, const at::Tensor& weight,
                              const at::Tensor& bias);
bool conv_depthwise_weight_grad(const ConvShape& shape, const at::Tensor& weight,
                                const at::Tensor& input, const at::Tensor& output);

// Those of cl/conv_broadcast.cl likewise.
bool conv_broadcast_forward(const ConvShape& shape, const at::Tensor& output,
                            const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& bias, const Epilogue& epilogue);
bool conv_broadcast_data_grad(const ConvShape& shape, const at::Tensor& input,
                              const at::Tensor& output, const at::Tensor& weight,
                              const at::Tensor& bias);
bool conv_broadcast_weight_grad(const ConvShape& shape, const at::Tensor& weight,
                                const at::Tensor& input, const at::Tensor& output);

// Those of cl/conv_winograd.cl likewise.
bool conv_winograd_forward(const ConvShape& shape, const at::Tensor& output,
                           const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& bias, const Epilogue& epilogue);
bool conv_winograd_data_grad(const ConvShape& shape, const at::Tensor& input,
                             const at::Tensor& output, const at::Tensor& weight,
                             const at::Tensor& bias);

}  // namespace ocl
