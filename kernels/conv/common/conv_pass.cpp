#include "kernels/conv/common/conv_pass.h"

#include <ATen/ceil_div.h>

#include <bit>
#include <numeric>

namespace ocl {
namespace {

using Dims = ConvShape::Dims;

int32_t product(const Dims& dims) { return dims[0] * dims[1] * dims[2]; }

// Elements from one index to the next, by dimension.
Dims steps(const Dims& sizes) { return {sizes[1] * sizes[2], sizes[2], 1}; }

void set_divisors(ConvPass& pass) {
  const std::array<int32_t, 6> divisors{pass.positions, pass.taps,         pass.size[1],
                                        pass.size[2],   pass.tap_count[1], pass.tap_count[2]};
  for (size_t i = 0; i < divisors.size(); ++i) {
    const auto divisor = static_cast<uint64_t>(divisors[i]);
    const auto shift = static_cast<uint32_t>(std::bit_width(divisor - 1));
    pass.factor[i] =
        static_cast<uint32_t>((((uint64_t{1} << shift) - divisor) << 32) / divisor + 1);
    pass.shift[i] = shift;
  }
}

// Sets the fields that depend on the sizes, tap counts and channels.
ConvPass finished(ConvPass pass) {
  pass.positions = product(pass.size);
  pass.taps = product(pass.tap_count);
  pass.m = pass.rows;
  pass.n = pass.images * pass.positions;
  pass.k = pass.channels * pass.taps;
  set_divisors(pass);
  return pass;
}

// One dimension of a data gradient's pass. The inputs at + q * stride, q = 0, 1, ..., all depend on
// the same taps: `tap`, tap + period, tap + 2 * period, ... For the first of these taps, input q
// reads the output at q + first.
struct Phase {
  int32_t size, first, tap, taps, period;
};

Phase make_phase(const ConvShape& s, size_t d, int32_t at) {
  const int32_t stride = s.stride[d], dilation = s.dilation[d];
  const int32_t period = stride / std::gcd(stride, dilation);
  Phase phase{at::ceil_div(s.in[d] - at, stride), 0, 0, 0, period};
  for (int32_t tap = 0; tap < std::min(period, s.kernel[d]); ++tap) {
    const int32_t away = at + s.pad[d] - tap * dilation;
    if (away % stride != 0) continue;
    phase.first = away / stride;
    phase.tap = tap;
    phase.taps = at::ceil_div(s.kernel[d] - tap, period);
    break;
  }
  return phase;
}

ConvPass data_grad_pass(const ConvShape& s, const std::array<Phase, 3>& phases, const Dims& at) {
  const int32_t taps = product(s.kernel);
  ConvPass pass;
  pass.images = s.images;
  pass.groups = s.groups;
  pass.channels = s.out_channels;
  pass.rows = s.in_channels;
  pass.source_plane = product(s.out);
  pass.result_plane = product(s.in);
  pass.weight_group = s.out_channels * s.in_channels * taps;
  pass.weight_row = taps;
  pass.weight_channel = s.in_channels * taps;
  pass.source = s.out;
  pass.step = {1, 1, 1};
  const Dims weight_steps = steps(s.kernel), result_steps = steps(s.in);
  for (size_t d = 0; d < 3; ++d) {
    pass.size[d] = phases[d].size;
    pass.first[d] = phases[d].first;
    pass.spacing[d] = -s.dilation[d] * phases[d].period / s.stride[d];
    pass.tap_count[d] = std::max(phases[d].taps, 1);
    pass.weight_step[d] = phases[d].period * weight_steps[d];
    pass.weight_first += phases[d].tap * weight_steps[d];
    pass.result_step[d] = s.stride[d] * result_steps[d];
    pass.result_first += at[d] * result_steps[d];
    if (phases[d].taps == 0) pass.channels = 0;  // there is only the bias
  }
  return finished(pass);
}

}  // namespace

ConvPass forward_pass(const ConvShape& s) {
  const int32_t taps = product(s.kernel);
  ConvPass pass;
  pass.images = s.images;
  pass.groups = s.groups;
  pass.channels = s.in_channels;
  pass.rows = s.out_channels;
  pass.source_plane = product(s.in);
  pass.result_plane = product(s.out);
  pass.weight_group = s.out_channels * s.in_channels * taps;
  pass.weight_row = s.in_channels * taps;
  pass.weight_channel = taps;
  pass.source = s.in;
  pass.size = s.out;
  pass.step = s.stride;
  pass.first = {-s.pad[0], -s.pad[1], -s.pad[2]};
  pass.spacing = s.dilation;
  pass.tap_count = s.kernel;
  pass.weight_step = steps(s.kernel);
  pass.result_step = steps(s.out);
  return finished(pass);
}

std::vector<ConvPass> data_grad_passes(const ConvShape& s) {
  std::vector<ConvPass> passes;
  Dims at;
  for (at[0] = 0; at[0] < std::min(s.stride[0], s.in[0]); ++at[0]) {
    for (at[1] = 0; at[1] < std::min(s.stride[1], s.in[1]); ++at[1]) {
      for (at[2] = 0; at[2] < std::min(s.stride[2], s.in[2]); ++at[2]) {
        passes.push_back(data_grad_pass(
            s, {make_phase(s, 0, at[0]), make_phase(s, 1, at[1]), make_phase(s, 2, at[2])}, at));
      }
    }
  }
  return passes;
}

ConvPass weight_grad_pass(const ConvShape& s) {
  ConvPass pass = forward_pass(s);
  std::swap(pass.n, pass.k);
  return pass;
}

}  // namespace ocl
