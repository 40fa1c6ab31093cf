// Resampling and blurring as band matrices: each output pixel of a line is a weighted sum of a few
// adjacent input pixels. The transposed matrix is the operator's derivative.
//
//     w w w . . .      A row of the matrix for each output. `starts` and `weights` keep the
//     . w w w . .      numbers w, 3 taps for each output.
//     . . . w w w
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>
#include <vector>

#include "kernels/image/image.h"

namespace ocl::image {

struct Band {
  int64_t in_size, out_size;
  int64_t taps = 0;             // weights per output; all are within the input
  std::vector<int32_t> starts;  // the first input of each output
  std::vector<double> weights;  // [out_size][taps]
  bool derivative = false;      // sums begin with 0., so they are never -0.
  // The outputs from same_from up to same_to have the same weights, and each starts one input after
  // the one before.
  int64_t same_from = 0, same_to = 0;
  // The weights for uint8, as Pillow rounds them: in units of 2^-shift.
  int shift = 0;
  bool unsigned_sums = false;
  std::vector<int32_t> fixed;

  // Starts and weights (float, double or int) on the image's device; cached for the next call.
  std::pair<at::Tensor, at::Tensor> tables(const at::Tensor& img, at::ScalarType weight) const;

 private:
  struct OnDevice {
    c10::Stream stream;
    at::ScalarType weight;
    at::Tensor starts, weights;
  };
  mutable std::mutex mutex_;
  mutable std::vector<OnDevice> on_devices_;

 public:
  Band(int64_t in, int64_t out) : in_size(in), out_size(out) {}
};

// Tables are made on the host, and a start has 32 bits.
void check_table(int64_t in, int64_t out);

using BandPointer = std::shared_ptr<const Band>;

// The inputs of an output, from `start` on, with their weights.
struct Line {
  int64_t start;
  std::vector<double> weights;
};

// Fills the band's table. All lines get the same length, a multiple of `multiple` if the input is
// that long: shorter lines are padded with zero weights, and moved to stay within the input.
constexpr int64_t kLanes = 4;  // weights that the kernels read at once
void fill(Band& band, const std::vector<Line>& lines, int64_t multiple = kLanes);

// The lines of the transposed matrix, one for each of `in_size` inputs.
std::vector<Line> transpose(const std::vector<Line>& lines, int64_t in_size);

// Resampling: with antialiasing as in Pillow (Resample.c), without it as in
// torch.nn.functional.interpolate(align_corners=False). Comes from an LRU cache.
BandPointer resize_band(int64_t in, int64_t out, Interpolation interpolation, bool antialias,
                        bool transposed);

// One of the box blurs that make Pillow's Gaussian blur (BoxBlur.c); `radius` may be fractional.
BandPointer box_band(int64_t size, float radius, bool transposed);

// The radius of the box blur that, applied `passes` times, approximates a Gaussian blur with this
// standard deviation.
float box_radius(float deviation, int passes);

// A band without weights for Pillow's nearest-neighbour scaling: `starts` are input positions, from
// `start` on in steps of `scale`; -1 outside of the input. Its derivative has weights.
BandPointer position_band(int64_t in, int64_t out, double scale, double start,
                          bool transposed = false);

}  // namespace ocl::image
