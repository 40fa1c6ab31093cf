#include <cmath>

#include "kernels/image/passes.h"

namespace ocl::image {

bool AffinePass::small_steps() const {
  if (interpolation != Interpolation::kNearest) return false;
  const auto& a = matrix;
  const Tensor& made = backward ? in : out;
  const auto width = static_cast<double>(made.size(-1));
  const auto height = static_cast<double>(made.size(-2));
  for (const double x : {0.0, width}) {
    for (const double y : {0.0, height}) {
      if (std::abs(x * a[0] + y * a[1] + a[2]) >= 32768) return false;
      if (std::abs(x * a[3] + y * a[4] + a[5]) >= 32768) return false;
    }
  }
  return true;
}

std::array<int64_t, 6> AffinePass::fixed(int shift) const {
  const double one = std::ldexp(1.0, shift);
  const auto round = [&](double value) {
    return static_cast<int64_t>(std::floor(value * one + 0.5));
  };
  const auto& a = matrix;
  return {round(a[0]), round(a[1]), round(a[2] + a[0] * 0.5 + a[1] * 0.5),
          round(a[3]), round(a[4]), round(a[5] + a[3] * 0.5 + a[4] * 0.5)};
}

std::optional<std::array<double, 6>> AffinePass::inverse() const {
  // The matrix for indices of pixels instead of their centres, with the rounding of positions.
  std::array<double, 6> a = matrix;
  a[2] += (a[0] + a[1]) / 2, a[5] += (a[3] + a[4]) / 2;
  if (small_steps()) {
    const auto steps = fixed(16);
    for (size_t i = 0; i < a.size(); ++i) a[i] = std::ldexp(static_cast<double>(steps[i]), -16);
  }
  const double determinant = a[0] * a[4] - a[1] * a[3];
  if (std::abs(determinant) < 1e-12) return std::nullopt;
  const double b0 = a[4] / determinant, b1 = -a[1] / determinant;
  const double b3 = -a[3] / determinant, b4 = a[0] / determinant;
  return std::array<double, 6>{b0, b1, -b0 * a[2] - b1 * a[5], b3, b4, -b3 * a[2] - b4 * a[5]};
}

}  // namespace ocl::image
