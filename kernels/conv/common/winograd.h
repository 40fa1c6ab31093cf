// The part of Winograd's algorithm (winograd.clh) that both families share: 3x3 convolutions of
// stride 1.
#pragma once

#include "kernels/conv/common/conv_algorithm.h"

namespace ocl {

inline constexpr int64_t kWinogradTile = 2;     // results of a tile along each dimension
inline constexpr int64_t kWinogradPlanes = 16;  // products of a tile

struct WinogradProblem {
  // The kernels have structs with the same names.
  struct Geometry {
    int32_t images, rows, channels;
    int32_t in_height, in_width, height, width;
    int32_t pad_y, pad_x;
  };
  struct Filters {
    int32_t rows, channels;
    int32_t flipped;
    int64_t row_stride, channel_stride;
  };
  Geometry geometry;
  Filters filters;

  int64_t tiles() const;
};

// Why the algorithm does not apply to a shape; nullptr if it does.
const char* refusal_of_winograd(const ConvShape& shape);
// For the gradient of the weights, give the geometry of the forward convolution.
WinogradProblem winograd_problem(const ConvCall& call);

}  // namespace ocl
