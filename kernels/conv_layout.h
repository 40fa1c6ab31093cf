// The host's side of cl/conv_pack.cl: layouts of padded copies and tables of tap offsets, all as
// that file's head comment defines them.
#pragma once

#include <vector>

#include "kernels/conv.h"

namespace ocl {

// A register tile of output channels by vectors of pixels.
struct ConvTile {
  int32_t channels, vectors;
};

// A zero-padded copy of a tensor, split into the phases of the stride.
struct PaddedLayout {
  using Dims = ConvShape::Dims;

  int32_t images, channels;
  Dims size;            // of the tensor's planes
  Dims stride, phases;  // by which they are split
  Dims padded;          // slices, rows and pitch of a phase
  int64_t front, back;

  // So many images' rows are beside each other: the rows between images cost time, too.
  int32_t beside() const;
  int64_t row() const { return int64_t{beside()} * padded[2]; }
  int64_t lines() const { return int64_t{images} / beside() * padded[0] * padded[1]; }
  int64_t phase() const { return lines() * row(); }
  int64_t channel(int64_t lanes) const;
  int64_t floats(int64_t lanes) const { return front + channels * channel(lanes) + back; }
  // From the first to the last pixel of `extent`.
  int64_t pixels(const Dims& extent) const;
};

// One launch of conv_taps with the weights that it packs.
struct TapPass {
  std::vector<int32_t> weight_offsets;
  int32_t run;  // of so many weight_offsets, each is the one before plus 1
  std::vector<int64_t> tap_offsets;
  ConvShape::Dims extent;  // of the output
  int64_t out_first;       // element of the output where it begins
  int64_t out_slice, out_row, out_column;
};

struct TapPlan {
  bool reads_tensor;  // kernel 1, stride 1, no padding: no copy
  PaddedLayout layout;
  std::vector<TapPass> passes;
};

// `lanes` floats are a vector, `back` the floats that a tile may read beyond the last pixel.
TapPlan plan_forward(const ConvShape& shape, int64_t lanes, int64_t tile_pixels,
                     bool allow_reading_tensor = true);
TapPlan plan_data_grad(const ConvShape& shape, int64_t lanes, int64_t tile_pixels);

}  // namespace ocl
