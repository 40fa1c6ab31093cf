// A convolution is one pass, a data gradient is several.
#pragma once

#include <vector>

#include "kernels/conv/common/conv.h"
#include "kernels/core/types/parameters.h"

namespace ocl {

#include "kernels/conv/common/conv_pass_parameters.clh"

struct ConvPass : Pass {
  ConvPass() : Pass{} { parts = 1; }

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
