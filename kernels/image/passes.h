// The passes that image operators are made of: kernels on ocl (ocl.cpp), loops on the CPU
// (cpu.cpp). All tensors are contiguous; the caller allocates outputs.
#pragma once

#include <array>

#include "kernels/image/band.h"

namespace ocl::image {

// The type of the arithmetic: double for double, else float.
inline ScalarType arithmetic(const Tensor& img) {
  return img.scalar_type() == ScalarType::Double ? ScalarType::Double : ScalarType::Float;
}

// Applies the matrix along the middle of [outer][size][inner]. Input and output are both uint8, or
// both floating point.
struct BandPass {
  const Tensor &in, &out;
  const Band& band;
  int64_t outer, inner;
};
void on_ocl(const BandPass& pass);
void on_cpu(const BandPass& pass);

// Applies band matrices along rows and columns, one after the other (resize.cpp).
enum class Along { kRows, kColumns };
struct Step {
  BandPointer band;
  Along along;
};
Tensor apply_steps(const Tensor& img, const std::vector<Step>& steps);

// out[y][x] = in[y's position][x's position] of each plane, or the channel's fill outside.
struct GatherPass {
  const Tensor &in, &out;
  const Band &ys, &xs;
  std::vector<double> fill;
};
void on_ocl(const GatherPass& pass);
void on_cpu(const GatherPass& pass);

// Samples `in` at the position that the matrix gives for each output pixel. `backward`: the
// derivative; `in` is the gradient of the output, and `out` becomes the input's gradient.
struct AffinePass {
  const Tensor &in, &out;
  std::array<double, 6> matrix;
  Interpolation interpolation;
  std::vector<double> fill;
  bool backward = false;

  // Whether Pillow would step through the image in units of 2^-16 instead of double precision.
  bool small_steps() const;
  // The matrix for integer pixel positions, in units of 2^-shift.
  std::array<int64_t, 6> fixed(int shift) const;
  // The inverse matrix, from positions in the input to output pixels, if there is one.
  std::optional<std::array<double, 6>> inverse() const;
};
void on_ocl(const AffinePass& pass);
void on_cpu(const AffinePass& pass);

enum class PixelOp { kBlend, kNormalize, kLuma, kSaturate, kHue, kHueBackward };

struct PixelPass {
  PixelOp op;
  const Tensor &in, &out;
  Colors colors;
  double factor = 1;  // or the rotation of the hue, in sixths of the circle (256ths for uint8)
  Tensor other = {};  // kBlend: the level of each image, if any; kHueBackward: the input
  std::vector<double> mean = {}, deviation = {};  // kNormalize: one for each channel
};
void on_ocl(const PixelPass& pass);
void on_cpu(const PixelPass& pass);

template <typename Pass>
void run(const Pass& pass) {
  if (pass.out.numel() == 0) return;
  pass.out.is_privateuseone() ? on_ocl(pass) : on_cpu(pass);
}

}  // namespace ocl::image
