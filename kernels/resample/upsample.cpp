// Upsampling: maps (resample.h) with the positions of outputs between inputs by PyTorch's rules.
#include <ATen/native/UpSample.h>

#include <bit>
#include <cmath>

#include "kernels/core/operators/registration.h"
#include "kernels/resample/resample.h"
#include "native/upsample.h"

namespace ocl {
namespace {

using Scale = std::optional<double>;

struct Upsampling {
  int64_t in, out;
  Scale scale;
  bool align_corners;
};

std::vector<Line> nearest_lines(const Upsampling& u, bool exact) {
  std::vector<Line> lines;
  for (int64_t o = 0; o < u.out; ++o) {
    const int64_t i = exact ? at::native::nearest_exact_idx(o, u.in, u.out, u.scale)
                            : at::native::nearest_idx(o, u.in, u.out, u.scale);
    lines.push_back({i, {1}});
  }
  return lines;
}

// Computes positions and weights in the type that the CPU's kernels use. Rounds the position once,
// as compilers do in these kernels: with 1000 pixels, a second rounding would change weights by
// 1e-4.
template <typename T>
T position_of(const Upsampling& u, T scale, int64_t o) {
  return u.align_corners ? scale * o : std::fma(scale, o + T{0.5}, T{-0.5});
}

template <typename T>
std::vector<Line> linear_lines(const Upsampling& u, T scale) {
  std::vector<Line> lines;
  for (int64_t o = 0; o < u.out; ++o) {
    int64_t first;
    T fraction;
    const T position = u.in == u.out ? o : std::max(position_of(u, scale, o), T{0});
    at::native::guard_index_and_lambda(position, u.in, first, fraction);
    Line line{first, {1}};
    if (u.in != u.out && first + 1 < u.in) line.weights = {T{1} - fraction, fraction};
    lines.push_back(std::move(line));
  }
  return lines;
}

template <typename T>
std::vector<Line> cubic_lines(const Upsampling& u, T scale) {
  std::vector<Line> lines;
  const auto inside = [&](int64_t i) { return std::clamp<int64_t>(i, 0, u.in - 1); };
  for (int64_t o = 0; o < u.out; ++o) {
    if (u.in == u.out) {
      lines.push_back({o, {1}});
      continue;
    }
    const T position = position_of(u, scale, o);
    int64_t second;
    T fraction, weights[4];
    at::native::guard_index_and_lambda(position, u.in, second, fraction);
    at::native::get_cubic_upsample_coefficients<T>(weights, fraction);
    Line line{inside(second - 1), {}};
    line.weights.resize(inside(second + 2) - line.start + 1);
    for (int64_t k = 0; k < 4; ++k) line.weights[inside(second - 1 + k) - line.start] += weights[k];
    lines.push_back(std::move(line));
  }
  return lines;
}

// Pillow's filters: a triangle, and the cubic one with a = -0.5.
template <typename T>
T filter(T x, bool cubic) {
  x = std::abs(x);
  if (!cubic) return x < 1 ? 1 - x : 0;
  const T a = -0.5;
  if (x < 1) return at::native::cubic_convolution1<T>(x, a);
  return x < 2 ? at::native::cubic_convolution2<T>(x, a) : 0;
}

template <typename T>
std::vector<Line> antialiased_lines(const Upsampling& u, T scale, bool cubic, bool backward) {
  std::vector<Line> lines;
  // The CPU skips dimensions that keep their size, whatever the scale, except in the derivative.
  if (u.in == u.out && !backward) scale = 1;
  const T support = (cubic ? 2 : 1) * std::max<T>(scale, 1);
  const T inverse = scale >= 1 ? T{1} / scale : T{1};
  const auto longest = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  for (int64_t o = 0; o < u.out; ++o) {
    const auto center = static_cast<T>(scale * (o + 0.5));
    const auto from = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const auto to = std::min(static_cast<int64_t>(center + support + 0.5), u.in);
    Line line{from, std::vector<double>(std::clamp<int64_t>(to - from, 0, longest))};
    T sum = 0;
    for (size_t k = 0; k < line.weights.size(); ++k) {
      const T weight = filter(static_cast<T>((k + from - center + 0.5) * inverse), cubic);
      line.weights[k] = weight;
      sum += weight;
    }
    for (double& weight : line.weights) weight = sum == 0 ? 0 : static_cast<T>(weight) / sum;
    lines.push_back(std::move(line));
  }
  return lines;
}

template <typename T>
std::vector<Line> lines_of(const Upsampling& u, MapKind mode, bool backward) {
  const T scale = at::native::area_pixel_compute_scale<T>(u.in, u.out, u.align_corners, u.scale);
  switch (mode) {
    case MapKind::kNearest:
    case MapKind::kNearestExact:
      return nearest_lines(u, mode == MapKind::kNearestExact);
    case MapKind::kLinear:
      return linear_lines<T>(u, scale);
    case MapKind::kCubic:
      return cubic_lines<T>(u, scale);
    default:
      return antialiased_lines<T>(u, scale, mode == MapKind::kCubicAntialiased, backward);
  }
}

// Upsamples `from` into `to`; with `backward`, computes the input's gradient from the output's.
void upsample(std::string_view op, MapKind mode, const at::Tensor& from, const at::Tensor& to,
              bool align_corners, std::initializer_list<Scale> scales, bool backward) {
  if (to.numel() == 0) return;
  const at::Tensor &in = backward ? to : from, &out = backward ? from : to;
  const auto type = from.scalar_type();
  const bool fine = type == at::kDouble || type == at::kByte;
  std::vector<DimensionMapPointer> maps;
  auto dim = in.dim() - static_cast<int64_t>(scales.size());
  for (Scale scale : scales) {
    // With smaller scales, positions would overflow int64. With this one they are already beyond
    // the last input.
    if (scale > 0.0) scale = std::max(*scale, 0x1p-31);
    const Upsampling u{in.size(dim), out.size(dim), scale, align_corners};
    ++dim;
    const DimensionMapKey key{mode,
                              u.in,
                              u.out,
                              {std::bit_cast<uint64_t>(scale.value_or(0)),
                               uint64_t{align_corners} << 1 | uint64_t{fine}}};
    maps.push_back(find_map(key, backward, [&] {
      return fine ? lines_of<double>(u, mode, backward) : lines_of<float>(u, mode, backward);
    }));
  }
  apply_maps(op, from, to, maps);
}

}  // namespace

namespace native {

OCL_STRUCTURED_AS("upsample_nearest1d.out", upsample_nearest1d,
                  upsample("upsample_nearest1d", MapKind::kNearest, self, out, false, {scales},
                           false))
OCL_STRUCTURED_AS("upsample_nearest1d_backward.grad_input", upsample_nearest1d_backward,
                  upsample("upsample_nearest1d_backward", MapKind::kNearest, grad_output,
                           grad_input, false, {scales}, true))
OCL_STRUCTURED_AS("_upsample_nearest_exact1d.out", upsample_nearest_exact1d,
                  upsample("_upsample_nearest_exact1d", MapKind::kNearestExact, self, out, false,
                           {scales}, false))
OCL_STRUCTURED_AS("_upsample_nearest_exact1d_backward.grad_input",
                  upsample_nearest_exact1d_backward,
                  upsample("_upsample_nearest_exact1d_backward", MapKind::kNearestExact,
                           grad_output, grad_input, false, {scales}, true))
OCL_STRUCTURED_AS("upsample_nearest2d.out", upsample_nearest2d,
                  upsample("upsample_nearest2d", MapKind::kNearest, self, out, false,
                           {scales_h, scales_w}, false))
OCL_STRUCTURED_AS("upsample_nearest2d_backward.grad_input", upsample_nearest2d_backward,
                  upsample("upsample_nearest2d_backward", MapKind::kNearest, grad_output,
                           grad_input, false, {scales_h, scales_w}, true))
OCL_STRUCTURED_AS("_upsample_nearest_exact2d.out", upsample_nearest_exact2d,
                  upsample("_upsample_nearest_exact2d", MapKind::kNearestExact, self, out, false,
                           {scales_h, scales_w}, false))
OCL_STRUCTURED_AS("_upsample_nearest_exact2d_backward.grad_input",
                  upsample_nearest_exact2d_backward,
                  upsample("_upsample_nearest_exact2d_backward", MapKind::kNearestExact,
                           grad_output, grad_input, false, {scales_h, scales_w}, true))
OCL_STRUCTURED_AS("upsample_nearest3d.out", upsample_nearest3d,
                  upsample("upsample_nearest3d", MapKind::kNearest, self, out, false,
                           {scales_d, scales_h, scales_w}, false))
OCL_STRUCTURED_AS("upsample_nearest3d_backward.grad_input", upsample_nearest3d_backward,
                  upsample("upsample_nearest3d_backward", MapKind::kNearest, grad_output,
                           grad_input, false, {scales_d, scales_h, scales_w}, true))
OCL_STRUCTURED_AS("_upsample_nearest_exact3d.out", upsample_nearest_exact3d,
                  upsample("_upsample_nearest_exact3d", MapKind::kNearestExact, self, out, false,
                           {scales_d, scales_h, scales_w}, false))
OCL_STRUCTURED_AS("_upsample_nearest_exact3d_backward.grad_input",
                  upsample_nearest_exact3d_backward,
                  upsample("_upsample_nearest_exact3d_backward", MapKind::kNearestExact,
                           grad_output, grad_input, false, {scales_d, scales_h, scales_w}, true))
OCL_STRUCTURED_AS("upsample_linear1d.out", upsample_linear1d,
                  upsample("upsample_linear1d", MapKind::kLinear, self, out, align_corners,
                           {scales}, false))
OCL_STRUCTURED_AS("upsample_linear1d_backward.grad_input", upsample_linear1d_backward,
                  upsample("upsample_linear1d_backward", MapKind::kLinear, grad_output, grad_input,
                           align_corners, {scales}, true))
OCL_STRUCTURED_AS("upsample_bilinear2d.out", upsample_bilinear2d,
                  upsample("upsample_bilinear2d", MapKind::kLinear, self, out, align_corners,
                           {scales_h, scales_w}, false))
OCL_STRUCTURED_AS("upsample_bilinear2d_backward.grad_input", upsample_bilinear2d_backward,
                  upsample("upsample_bilinear2d_backward", MapKind::kLinear, grad_output,
                           grad_input, align_corners, {scales_h, scales_w}, true))
OCL_STRUCTURED_AS("upsample_trilinear3d.out", upsample_trilinear3d,
                  upsample("upsample_trilinear3d", MapKind::kLinear, self, out, align_corners,
                           {scales_d, scales_h, scales_w}, false))
OCL_STRUCTURED_AS("upsample_trilinear3d_backward.grad_input", upsample_trilinear3d_backward,
                  upsample("upsample_trilinear3d_backward", MapKind::kLinear, grad_output,
                           grad_input, align_corners, {scales_d, scales_h, scales_w}, true))
OCL_STRUCTURED_AS("upsample_bicubic2d.out", upsample_bicubic2d,
                  upsample("upsample_bicubic2d", MapKind::kCubic, self, out, align_corners,
                           {scales_h, scales_w}, false))
OCL_STRUCTURED_AS("upsample_bicubic2d_backward.grad_input", upsample_bicubic2d_backward,
                  upsample("upsample_bicubic2d_backward", MapKind::kCubic, grad_output, grad_input,
                           align_corners, {scales_h, scales_w}, true))
OCL_STRUCTURED_AS("_upsample_bilinear2d_aa.out", upsample_bilinear2d_aa,
                  upsample("_upsample_bilinear2d_aa", MapKind::kLinearAntialiased, self, out,
                           align_corners, {scales_h, scales_w}, false))
OCL_STRUCTURED_AS("_upsample_bilinear2d_aa_backward.grad_input", upsample_bilinear2d_aa_backward,
                  upsample("_upsample_bilinear2d_aa_backward", MapKind::kLinearAntialiased,
                           grad_output, grad_input, align_corners, {scales_h, scales_w}, true))
OCL_STRUCTURED_AS("_upsample_bicubic2d_aa.out", upsample_bicubic2d_aa,
                  upsample("_upsample_bicubic2d_aa", MapKind::kCubicAntialiased, self, out,
                           align_corners, {scales_h, scales_w}, false))
OCL_STRUCTURED_AS("_upsample_bicubic2d_aa_backward.grad_input", upsample_bicubic2d_aa_backward,
                  upsample("_upsample_bicubic2d_aa_backward", MapKind::kCubicAntialiased,
                           grad_output, grad_input, align_corners, {scales_h, scales_w}, true))

}  // namespace native
}  // namespace ocl
