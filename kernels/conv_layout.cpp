#include "kernels/conv_layout.h"

#include <algorithm>

namespace ocl {
namespace {

int32_t ceil_div(int32_t a, int32_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }
int32_t floor_div(int32_t a, int32_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// One spatial dimension of the forward convolution.
struct Axis {
  std::vector<int32_t> phase, step;
  int32_t phases = 1, extent = 0;

  Axis(int32_t size, int32_t out_size, int32_t kernel, int32_t stride, int32_t pad,
       int32_t dilation) {
    for (int32_t j = 0; j < kernel; ++j) {
      const int32_t shift = j * dilation - pad;
      step.push_back(floor_div(shift, stride));
      phase.push_back(shift - step.back() * stride);
      phases = std::max(phases, phase.back() + 1);
    }
    const int32_t kept = ceil_div(size, stride);
    const auto [least, most] = std::minmax_element(step.begin(), step.end());
    extent = std::max(out_size, kept + std::max({0, -*least, *most + out_size - kept}));
  }
};

// The inputs of one phase of the stride, in one dimension of the data gradient.
struct GradPhase {
  int32_t r, first, count;
  std::vector<std::pair<int32_t, int32_t>> taps;  // kernel index, step
};

std::vector<GradPhase> grad_phases(int32_t size, int32_t kernel, int32_t stride, int32_t pad,
                                   int32_t dilation) {
  std::vector<GradPhase> phases;
  for (int32_t r = 0; r < stride; ++r) {
    GradPhase phase{r, ceil_div(pad - r, stride), 0, {}};
    phase.count = floor_div(size - 1 + pad - r, stride) - phase.first + 1;
    for (int32_t j = 0; j < kernel; ++j) {
      if (j * dilation % stride == r)
        phase.taps.emplace_back(j, phase.first - j * dilation / stride);
    }
    phases.push_back(std::move(phase));
  }
  return phases;
}

// Rows or pitch that hold every phase.
int32_t grad_extent(const std::vector<GradPhase>& phases, int32_t size) {
  int32_t extent = 1;
  for (const GradPhase& phase : phases) {
    int32_t margin = 0;
    for (const auto& [j, step] : phase.taps) {
      margin = std::max({margin, -step, step + phase.count - size});
    }
    extent = std::max({extent, phase.count, size + margin});
  }
  return extent;
}

bool is_pointwise(const ConvShape& s) {
  return s.kernel[1] == 1 && s.kernel[2] == 1 && s.stride[1] == 1 && s.stride[2] == 1 &&
         s.pad[1] == 0 && s.pad[2] == 0;
}

// The tensor itself serves as layout where a panel of pixels is small beside a plane.
constexpr int64_t kPanelsPerPlane = 4;

TapPlan read_tensor(const ConvShape& s, int32_t channels, std::vector<int32_t> weight_offsets) {
  const int32_t plane = s.in[1] * s.in[2];
  TapPlan plan{true, {}, {}};
  plan.layout = {s.images, s.groups * channels, 1, plane, 1, 1, 1, 1, 1, plane, 0, 0};
  TapPass pass{std::move(weight_offsets), {}, 1, plane, 0, plane, 1};
  for (int64_t c = 0; c < channels; ++c) pass.tap_offsets.push_back(c * plane);
  plan.passes.push_back(std::move(pass));
  return plan;
}

}  // namespace

int64_t PaddedLayout::channel(int64_t lanes) const {
  return (int64_t{phases_y} * phases_x * pixels() + lanes - 1) / lanes * lanes;
}

TapPlan plan_forward(const ConvShape& s, int64_t lanes, int64_t tile_pixels,
                     bool allow_reading_tensor) {
  std::vector<int32_t> weight_offsets(s.taps());
  for (size_t i = 0; i < weight_offsets.size(); ++i) weight_offsets[i] = static_cast<int32_t>(i);
  const int64_t plane = int64_t{s.in[1]} * s.in[2];
  if (allow_reading_tensor && is_pointwise(s) && plane >= kPanelsPerPlane * tile_pixels) {
    return read_tensor(s, s.in_channels, std::move(weight_offsets));
  }
  const Axis y(s.in[1], s.out[1], s.kernel[1], s.stride[1], s.pad[1], s.dilation[1]);
  const Axis x(s.in[2], s.out[2], s.kernel[2], s.stride[2], s.pad[2], s.dilation[2]);
  TapPlan plan{false, {}, {}};
  PaddedLayout& layout = plan.layout;
  layout = {s.images,    s.groups * s.in_channels,
            s.in[1],     s.in[2],
            s.stride[1], s.stride[2],
            y.phases,    x.phases,
            y.extent,    x.extent,
            0,           tile_pixels};
  std::vector<int64_t> shifts;
  for (const int32_t step_y : y.step) {
    for (const int32_t step_x : x.step) shifts.push_back(int64_t{step_y} * x.extent + step_x);
  }
  const auto [least, most] = std::minmax_element(shifts.begin(), shifts.end());
  layout.front = std::max<int64_t>(0, -*least);
  layout.back += std::max<int64_t>(0, *most);
  TapPass pass{std::move(weight_offsets), {}, s.out[1], s.out[2], 0, s.out[2], 1};
  for (int64_t c = 0; c < s.in_channels; ++c) {
    for (int32_t jy = 0; jy < s.kernel[1]; ++jy) {
      for (int32_t jx = 0; jx < s.kernel[2]; ++jx) {
        pass.tap_offsets.push_back(layout.front + c * layout.channel(lanes) +
                                   (int64_t{y.phase[jy]} * x.phases + x.phase[jx]) *
                                       layout.pixels() +
                                   shifts[jy * s.kernel[2] + jx]);
      }
    }
  }
  plan.passes.push_back(std::move(pass));
  return plan;
}

TapPlan plan_data_grad(const ConvShape& s, int64_t lanes, int64_t tile_pixels) {
  const int32_t window = s.kernel[1] * s.kernel[2];
  const int64_t plane = int64_t{s.in[1]} * s.in[2];
  if (is_pointwise(s) && plane >= kPanelsPerPlane * tile_pixels) {
    std::vector<int32_t> weight_offsets;
    for (int32_t o = 0; o < s.out_channels; ++o) weight_offsets.push_back(o * s.in_channels);
    return read_tensor(s, s.out_channels, std::move(weight_offsets));
  }
  const auto ys = grad_phases(s.in[1], s.kernel[1], s.stride[1], s.pad[1], s.dilation[1]);
  const auto xs = grad_phases(s.in[2], s.kernel[2], s.stride[2], s.pad[2], s.dilation[2]);
  TapPlan plan{false, {}, {}};
  PaddedLayout& layout = plan.layout;
  const int32_t rows = grad_extent(ys, s.out[1]), pitch = grad_extent(xs, s.out[2]);
  layout = {s.images,   s.groups * s.out_channels, s.out[1], s.out[2], 1, 1, 1, 1, rows, pitch, 0,
            tile_pixels};
  int64_t most = 0;
  for (const GradPhase& y : ys) {
    for (const GradPhase& x : xs) {
      for (const auto& [jy, step_y] : y.taps) {
        for (const auto& [jx, step_x] : x.taps) {
          const int64_t shift = int64_t{step_y} * pitch + step_x;
          layout.front = std::max(layout.front, -shift);
          most = std::max(most, shift);
        }
      }
    }
  }
  layout.back += most;
  for (const GradPhase& y : ys) {
    for (const GradPhase& x : xs) {
      if (y.count <= 0 || x.count <= 0) continue;
      const int64_t first_y = int64_t{y.first} * s.stride[1] + y.r - s.pad[1];
      const int64_t first_x = int64_t{x.first} * s.stride[2] + x.r - s.pad[2];
      TapPass pass{{},
                   {},
                   y.count,
                   x.count,
                   first_y * s.in[2] + first_x,
                   int64_t{s.stride[1]} * s.in[2],
                   s.stride[2]};
      for (int32_t o = 0; o < s.out_channels; ++o) {
        for (const auto& [jy, step_y] : y.taps) {
          for (const auto& [jx, step_x] : x.taps) {
            pass.weight_offsets.push_back(o * s.in_channels * window + jy * s.kernel[2] + jx);
            pass.tap_offsets.push_back(layout.front + o * layout.channel(lanes) +
                                       int64_t{step_y} * pitch + step_x);
          }
        }
      }
      plan.passes.push_back(std::move(pass));
    }
  }
  return plan;
}

}  // namespace ocl
