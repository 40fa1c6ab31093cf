// The struct Pass of conv_pass.clh: a convolution is one pass, a data gradient is several.
#pragma once

#include <array>
#include <vector>

#include "kernels/conv/common/conv.h"

namespace ocl {

struct ConvPass {
  using Dims = ConvShape::Dims;

  int32_t m = 0, n = 0, k = 0, parts = 1, part_depth = 0;
  int32_t images = 0, groups = 0;
  int32_t channels = 0, rows = 0;
  int32_t source_plane = 0, result_plane = 0;
  int32_t positions = 0, taps = 0;
  int32_t weight_group = 0, weight_row = 0, weight_channel = 0, weight_first = 0;
  Dims source{}, size{}, step{}, first{}, spacing{}, tap_count{}, weight_step{}, result_step{};
  int32_t result_first = 0;
  std::array<uint32_t, 6> factor{}, shift{};

  double work() const { return static_cast<double>(m) * n * k * groups; }  // multiply-adds
  // The weights of a filter's channel are adjacent, and the taps of a row are in order.
  bool in_order() const { return weight_channel == taps && weight_step[2] == 1; }
};

// The convolution, and its data gradient with a pass for each remainder modulo the stride.
ConvPass forward_pass(const ConvShape& shape);
std::vector<ConvPass> data_grad_passes(const ConvShape& shape);
// The argument of conv_weight_tiles (conv_gpu.cl).
ConvPass weight_grad_pass(const ConvShape& shape);

}  // namespace ocl
