// Convolutions of CPU devices on channels_last tensors, without copies of them: launches of
// cl/conv_channels_last*.cl. float32 only. All tensors but bias and weights have their channels
// last; weights are contiguous or have them last, too. Each function returns false where it does
// not apply, and has launched nothing then.
#pragma once

#include "kernels/conv_cpu.h"
#include "kernels/conv_pass.h"

namespace ocl {

bool conv_forward_channels_last(const ConvShape& shape, const at::Tensor& output,
                                const at::Tensor& input, const at::Tensor& weight,
                                const at::Tensor& bias);
bool conv_data_grad_channels_last(const ConvShape& shape, const at::Tensor& input,
                                  const at::Tensor& output, const at::Tensor& weight,
                                  const at::Tensor& bias);
bool conv_weight_grad_channels_last(const ConvShape& shape, const at::Tensor& weight,
                                    const at::Tensor& input, const at::Tensor& output);

// Their depthwise cases; the ones above try them first.
bool depthwise_channels_last(const std::vector<ConvPass>& passes, const at::Tensor& result,
                             const at::Tensor& source, const at::Tensor& weight,
                             const at::Tensor& bias);
bool depthwise_weight_channels_last(const ConvShape& shape, const at::Tensor& weight,
                                    const at::Tensor& input, const at::Tensor& output);

namespace channels_last {

bool applies(const at::Tensor& result, const at::Tensor& source);
// Where the weights are, if the `channels` of a filter lie side by side; those of conv_pass.h are
// contiguous. `along`: the step from channel to channel.
void take_weights(ConvPass& pass, int32_t& along, int32_t channels, const at::Tensor& weight);
// Floats and launch of conv_channels_last_pack.cl for panels of `vectors`.
int64_t packed_size(const ConvPass& pass, int64_t panel);
Range pack_grid(const ConvPass& pass, int64_t panel);
const Kernel& pack_kernel(Device& device, const char* name, int64_t vectors);
// The channels of an image are so few that the taps of a row are read as one: as many neighbours.
bool has_few_channels(const ConvShape& shape);
void join_taps_of_rows(ConvPass& pass);
// A kernel of 1, all else as simple: a product of matrices [pixels or filters][channels].
bool is_product(const ConvShape& shape);
at::Tensor as_matrix(const at::Tensor& tensor);

}  // namespace channels_last
}  // namespace ocl
