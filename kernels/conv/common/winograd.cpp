#include "kernels/conv/common/winograd.h"

#include <ATen/ceil_div.h>

namespace ocl {
namespace {

WinogradProblem forward_problem(const ConvShape& s) {
  return {{s.images, s.out_channels, s.in_channels, s.in[1], s.in[2], s.out[1], s.out[2], s.pad[1],
           s.pad[2]},
          {s.out_channels, s.in_channels, 0, s.taps(), s.kernel[1] * s.kernel[2]}};
}

// A convolution of the output's gradient with filters rotated by 180 degrees.
WinogradProblem data_grad_problem(const ConvShape& s) {
  return {{s.images, s.in_channels, s.out_channels, s.out[1], s.out[2], s.in[1], s.in[2],
           s.kernel[1] - 1 - s.pad[1], s.kernel[2] - 1 - s.pad[2]},
          {s.in_channels, s.out_channels, 1, s.kernel[1] * s.kernel[2], s.taps()}};
}

}  // namespace

int64_t WinogradProblem::tiles() const {
  return geometry.images * at::ceil_div(int64_t{geometry.height}, kWinogradTile) *
         at::ceil_div(int64_t{geometry.width}, kWinogradTile);
}

const char* refusal_of_winograd(const ConvShape& s) {
  if (s.groups != 1) return "more than one group";
  if (s.in[0] != 1 || s.out[0] != 1 || s.pad[0] != 0) return "three dimensions";
  if (s.kernel != ConvShape::Dims{1, 3, 3}) return "the kernel is not 3x3";
  if (s.stride != ConvShape::Dims{1, 1, 1}) return "the stride is not 1";
  if (s.dilation[1] != 1 || s.dilation[2] != 1) return "the dilation is not 1";
  // An unused stride also becomes 1, but then no tap reads the last pixels of the source.
  for (const size_t d : {1, 2}) {
    if (s.out[d] != s.in[d] + 2 * s.pad[d] - 2) return "pixels that no tap reads";
  }
  return nullptr;
}

WinogradProblem winograd_problem(const ConvCall& call) {
  return call.direction == ConvDirection::kDataGrad ? data_grad_problem(call.shape)
                                                    : forward_problem(call.shape);
}

}  // namespace ocl
