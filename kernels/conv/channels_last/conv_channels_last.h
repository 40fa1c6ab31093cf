// Shared by the convolutions of CPU devices that read and write channels_last tensors in place.
// Inputs and outputs are channels_last, weights are channels_last or contiguous.
#pragma once

#include "kernels/conv/cpu/conv_plans.h"

namespace ocl {

namespace channels_last {

// Why these kernels cannot take a call: shared by the algorithms.
const char* refusal_of_call(const ConvCall& call, at::ScalarType type = at::kFloat);
// The same for the algorithms that multiply pairs of bfloat16.
const char* refusal_of_pairs(const ConvCall& call);
// Changes the pass's strides of weights, which are those of contiguous weights, if `weight` is
// channels_last. `along`: the pass's stride between the `channels` channels of a filter.
void take_weights(ConvPass& pass, int32_t& along, int32_t channels, const at::Tensor& weight);
// The size of packed weights in floats, and grid and kernel of conv_channels_last_pack.cl, which
// packs or unpacks them. `panel`: rows of a panel; `vectors`: the same in vectors.
int64_t packed_size(const ConvPass& pass, int64_t panel);
Range pack_grid(const ConvPass& pass, int64_t panel);
const Kernel& pack_kernel(Device& device, bool unpack, int64_t vectors);
// Packs weights for a pass, with zeros for a row of taps after them.
at::Tensor pack_weights(const ConvPass& pass, int64_t vectors, const at::Tensor& weight);

// The register tile of conv_channels_last.cl.
struct Tile {
  int64_t positions, vectors;
};
Tile choose_tile(const Device& device, int64_t rows);
bool has_few_taps(const ConvShape& shape);
bool has_few_rows(const ConvPass& pass);
// Runs a pass with packed weights. `pitch`: channels of a pixel of the source.
void run_pass(const ConvPass& pass, Tile tile, const at::Tensor& result, const at::Tensor& source,
              int32_t pitch, const at::Tensor& packed, const at::Tensor& bias);
// The number of zeros that taps read before and after each row of the source.
struct Ends {
  int64_t before, after;
};
Ends ends_of_rows(const ConvPass& pass);
// Copies the source with these zeros, and adapts `pass`.
at::Tensor pad_rows(ConvPass& pass, const at::Tensor& source, int32_t pitch);

// join_taps_of_rows() makes the taps of a row one tap, whose channels are the adjacent channels of
// all its pixels. has_few_channels(): whether that is faster, because the input has few channels.
bool has_few_channels(const ConvShape& shape);
void join_taps_of_rows(ConvPass& pass);
}  // namespace channels_last
}  // namespace ocl
