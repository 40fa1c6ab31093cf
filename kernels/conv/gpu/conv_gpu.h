// Convolutions of GPUs. Each function returns false, and has launched nothing, where it does not
// apply; then the plain kernels of kernels/conv/conv_plain.cl run.
#pragma once

#include "kernels/conv/common/conv.h"

namespace ocl {

bool conv_forward_gpu(const ConvShape& shape, const at::Tensor& output, const at::Tensor& input,
                      const at::Tensor& weight, const at::Tensor& bias, const Epilogue& epilogue);
bool conv_data_grad_gpu(const ConvShape& shape, const at::Tensor& input, const at::Tensor& output,
                        const at::Tensor& weight, const at::Tensor& bias);
bool conv_weight_grad_gpu(const ConvShape& shape, const at::Tensor& weight, const at::Tensor& input,
                          const at::Tensor& output);

// While `off`, none of the functions applies; for tests that compare with the plain kernels.
void conv_gpu_switch_off(bool off);

}  // namespace ocl
