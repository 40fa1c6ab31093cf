// Computes the layouts of padded copies and the tables of tap offsets that the head comments of
// conv_pack.cl and conv_padded.cl define.
#pragma once

#include <vector>

#include "kernels/conv/common/conv.h"

namespace ocl {

// A register tile of output channels by vectors of pixels.
struct ConvTile {
  int32_t channels, vectors;
};

// A zero-padded copy of a tensor, split into the phases of the stride.
struct PaddedLayout {
  using Dims = ConvShape::Dims;

  int32_t images, channels;
  Dims size;            // size of the tensor's channels
  Dims stride, phases;  // the stride, and the number of its phases that taps read
  Dims padded;          // slices, rows and pitch of a phase
  int64_t front, back;

  // The number of images whose rows are adjacent in one line: lines of zeros between images cost
  // time, and wider lines need fewer.
  int32_t images_per_line() const;
  int64_t row() const { return int64_t{images_per_line()} * padded[2]; }
  int64_t lines() const { return int64_t{images} / images_per_line() * padded[0] * padded[1]; }
  int64_t phase() const { return lines() * row(); }
  int64_t channel(int64_t lanes) const;
  int64_t floats(int64_t lanes) const { return front + channels * channel(lanes) + back; }
  // Positions to compute for an output of size `extent`, from its first pixel to its last line.
  int64_t pixels(const Dims& extent) const;
};

// One launch of conv_taps (conv_padded.cl), and of pack_weights before it.
struct TapPass {
  std::vector<int32_t> weight_offsets;
  int32_t run;  // weight_offsets consist of runs of this length, of consecutive numbers
  std::vector<int64_t> tap_offsets;
  ConvShape::Dims extent;  // size of the pass's output
  int64_t out_first;       // the first element of that output in the result
  int64_t out_slice, out_row, out_column;
};

struct TapPlan {
  bool reads_tensor;  // the kernels read the tensor, not a copy: kernel 1, stride 1, no padding
  PaddedLayout layout;
  std::vector<TapPass> passes;
};

// `lanes`: floats of a vector. `tile_pixels`: pixels of a tile, which may be read after the last.
TapPlan plan_forward(const ConvShape& shape, int64_t lanes, int64_t tile_pixels,
                     bool allow_reading_tensor = true);
TapPlan plan_data_grad(const ConvShape& shape, int64_t lanes, int64_t tile_pixels);

}  // namespace ocl
