// Convolutions of channels_last tensors in bfloat16, as pairs of channels: launches of
// conv_channels_last.cl.
#include <ATen/ops/constant_pad_nd.h>

#include "kernels/conv/channels_last/conv_channels_last.h"

namespace ocl {
namespace {

using namespace channels_last;

const char* refusal(const ConvCall& call) {
  if (const char* reason = refusal_of_pairs(call)) return reason;
  if (call.shape.groups != 1) return "more than one group";
  if (has_few_rows(call.passes().front())) return "few channels of the result";
  return has_few_taps(call.shape) ? nullptr : "too many taps";
}

// Weights as floats [rows][taps][channels / 2]: a float holds a pair of channels. An odd number of
// channels gets a zero. `along`: the dimension of the channels in the weights.
at::Tensor weight_pairs(const at::Tensor& weight, int64_t along, int64_t channels) {
  at::Tensor rows = weight.movedim(along, -1).contiguous();
  rows = rows.view({rows.size(0), -1, channels});
  if (channels % 2) rows = at::constant_pad_nd(rows, {0, 1});
  if (rows.storage_offset() % 2) rows = rows.clone();
  return rows.view(at::kFloat);
}

// `joined`: the number of taps that join_taps_of_rows() made one tap, else 1.
at::Tensor pack_pairs(ConvPass pass, int64_t vectors, const at::Tensor& weight, int32_t joined) {
  const auto channels = static_cast<int32_t>(weight.size(2));
  pass.channels = pass.channels ? channels : 0;
  pass.weight_row = static_cast<int32_t>(weight.size(1)) * channels;
  pass.weight_channel = 1;
  pass.weight_first = pass.weight_first / joined * channels;
  for (int32_t& step : pass.weight_step) step = step / joined * channels;
  return pack_weights(pass, vectors, weight);
}

void run_forward(const ConvCall& call) {
  const ConvShape& s = call.shape;
  ConvPass pass = call.passes().front();
  const Tile tile = choose_tile(call.device, pass.rows);
  at::Tensor source = call.source;
  int32_t joined = 1;
  if (has_few_channels(s)) {
    joined = s.kernel[2];
    source = pad_rows(pass, source, s.in_channels);
    join_taps_of_rows(pass);
  }
  const at::Tensor weight = weight_pairs(call.factor, 1, pass.channels);
  run_pass(pass, tile, call.result, source, s.in_channels,
           pack_pairs(pass, tile.vectors, weight, joined), call.bias);
}

void run(const ConvCall& call) {
  const ConvShape& s = call.shape;
  if (call.direction == ConvDirection::kForward) return run_forward(call);
  const Tile tile = choose_tile(call.device, s.in_channels);
  const at::Tensor weight = weight_pairs(call.factor, 0, s.out_channels);
  for (const ConvPass& pass : call.passes()) {
    run_pass(pass, tile, call.result, call.source, s.out_channels,
             pack_pairs(pass, tile.vectors, weight, 1), call.bias);
  }
}

}  // namespace

const ConvAlgorithm kConvChannelsLastPairs{"channels_last_pairs", true, &refusal, &run};

}  // namespace ocl
