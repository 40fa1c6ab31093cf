// The host's side of cl/conv_cpu.cl: layouts of padded copies and tables of tap offsets, all as
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
  int32_t images, channels, height, width;
  int32_t stride_y, stride_x, phases_y, phases_x, rows, pitch;
  int64_t front, back;

  int64_t plane() const { return int64_t{rows} * pitch; }
  int64_t pixels() const { return images * plane(); }
  int64_t channel(int64_t lanes) const;
  int64_t size(int64_t lanes) const { return front + channels * channel(lanes) + back; }
};

// One launch of conv_taps with the weights that it packs.
struct TapPass {
  std::vector<int32_t> weight_offsets;
  std::vector<int64_t> tap_offsets;
  int32_t out_height, out_width;
  int64_t out_first;  // element of the output where it begins
  int64_t out_row, out_column;
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
