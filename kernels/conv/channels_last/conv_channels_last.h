// Convolutions of CPU devices that read and write channels_last tensors in place: launches of
// conv_channels_last*.cl. float32 only. Inputs and outputs are channels_last, weights are
// channels_last or contiguous. A function returns false, and has launched nothing, where it does
// not apply.
#pragma once

#include "kernels/conv/common/conv_pass.h"
#include "kernels/conv/cpu/conv_cpu.h"

namespace ocl {

bool conv_forward_channels_last(const ConvShape& shape, const at::Tensor& output,
                                const at::Tensor& input, const at::Tensor& weight,
                                const at::Tensor& bias);
bool conv_data_grad_channels_last(const ConvShape& shape, const at::Tensor& input,
                                  const at::Tensor& output, const at::Tensor& weight,
                                  const at::Tensor& bias);
bool conv_weight_grad_channels_last(const ConvShape& shape, const at::Tensor& weight,
                                    const at::Tensor& input, const at::Tensor& output);

// Depthwise convolutions, which the functions above try first.
bool depthwise_channels_last(const std::vector<ConvPass>& passes, const at::Tensor& result,
                             const at::Tensor& source, const at::Tensor& weight,
                             const at::Tensor& bias);
bool depthwise_weight_channels_last(const ConvShape& shape, const at::Tensor& weight,
                                    const at::Tensor& input, const at::Tensor& output);

namespace channels_last {

bool applies(const at::Tensor& result, const at::Tensor& source);
// Changes the strides of the pass's weights, which are those of contiguous weights, where `weight`
// is channels_last. `along`: the pass's stride between the `channels` channels of a filter.
void take_weights(ConvPass& pass, int32_t& along, int32_t channels, const at::Tensor& weight);
// Floats of packed weights, and the launch of conv_channels_last_pack.cl. `panel`: rows of a panel,
// which are `vectors` vectors.
int64_t packed_size(const ConvPass& pass, int64_t panel);
Range pack_grid(const ConvPass& pass, int64_t panel);
const Kernel& pack_kernel(Device& device, const char* name, int64_t vectors);
// Whether the input has so few channels that join_taps_of_rows() pays: it makes the taps of a row
// one tap, whose channels are the adjacent channels of all its pixels.
bool has_few_channels(const ConvShape& shape);
void join_taps_of_rows(ConvPass& pass);
// Whether the convolution is a matrix product of [pixels][channels] and [filters][channels]: one
// group, kernel and stride 1, no padding.
bool is_product(const ConvShape& shape);
at::Tensor as_matrix(const at::Tensor& tensor);

}  // namespace channels_last
}  // namespace ocl
