#include "kernels/conv/common/conv_layout.h"

#include <ATen/ceil_div.h>

#include <algorithm>

namespace ocl {
namespace {

// Rounds down, also for negative numbers.
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

// The inputs of one phase of the stride, in one dimension of the data gradient; see the head
// comment of conv_padded.cl.
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

// The number of rows, or the pitch, that suffices for every phase.
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

using Dims = ConvShape::Dims;

int64_t product(const Dims& dims) { return int64_t{dims[0]} * dims[1] * dims[2]; }

// Kernels read the tensor itself if a plane has at least this many panels of pixels.
constexpr int64_t kPanelsPerPlane = 4;

TapPlan read_tensor(const ConvShape& s, int32_t channels, std::vector<int32_t> weight_offsets,
                    int32_t run) {
  const auto plane = static_cast<int32_t>(product(s.in));
  TapPlan plan{true, {}, {}};
  plan.layout = {1, s.groups * channels, {1, 1, plane}, {1, 1, 1}, {1, 1, 1}, {1, 1, plane}, 0, 0};
  TapPass pass{std::move(weight_offsets), run, {}, {1, 1, plane}, 0, plane, plane, 1};
  for (int64_t c = 0; c < channels; ++c) pass.tap_offsets.push_back(c * plane);
  plan.passes.push_back(std::move(pass));
  return plan;
}

}  // namespace

int32_t PaddedLayout::images_per_line() const {
  // Lines are not wider, so that the rows which a window reads in all channels stay in the cache.
  constexpr int32_t kWidest = 128;
  int32_t count = std::clamp(kWidest / padded[2], 1, std::max(1, images));
  while (images % count) --count;
  return count;
}

int64_t PaddedLayout::channel(int64_t lanes) const {
  return at::round_up(product(phases) * phase(), lanes);
}

int64_t PaddedLayout::pixels(const Dims& extent) const {
  const int64_t unused = int64_t{padded[0] - extent[0] + 1} * padded[1] - extent[1];
  return (lines() - unused) * row();
}

TapPlan plan_forward(const ConvShape& s, int64_t lanes, int64_t tile_pixels,
                     bool allow_reading_tensor) {
  std::vector<int32_t> weight_offsets(s.taps());
  for (size_t i = 0; i < weight_offsets.size(); ++i) weight_offsets[i] = static_cast<int32_t>(i);
  const auto run = static_cast<int32_t>(weight_offsets.size());
  if (allow_reading_tensor && s.is_pointwise() && product(s.in) >= kPanelsPerPlane * tile_pixels) {
    return read_tensor(s, s.in_channels, std::move(weight_offsets), run);
  }
  std::vector<Axis> axes;
  for (size_t d = 0; d < 3; ++d) {
    axes.emplace_back(s.in[d], s.out[d], s.kernel[d], s.stride[d], s.pad[d], s.dilation[d]);
  }
  const auto &z = axes[0], &y = axes[1], &x = axes[2];
  TapPlan plan{false, {}, {}};
  PaddedLayout& layout = plan.layout;
  layout = {s.images,
            s.groups * s.in_channels,
            s.in,
            s.stride,
            {z.phases, y.phases, x.phases},
            {z.extent, y.extent, x.extent},
            0,
            tile_pixels};
  std::vector<int64_t> shifts, offsets;
  for (int32_t jz = 0; jz < s.kernel[0]; ++jz) {
    for (int32_t jy = 0; jy < s.kernel[1]; ++jy) {
      for (int32_t jx = 0; jx < s.kernel[2]; ++jx) {
        shifts.push_back((int64_t{z.step[jz]} * y.extent + y.step[jy]) * layout.row() + x.step[jx]);
        const int64_t phase = (int64_t{z.phase[jz]} * y.phases + y.phase[jy]) * x.phases;
        offsets.push_back((phase + x.phase[jx]) * layout.phase() + shifts.back());
      }
    }
  }
  const auto [least, most] = std::minmax_element(shifts.begin(), shifts.end());
  layout.front = std::max<int64_t>(0, -*least);
  layout.back += std::max<int64_t>(0, *most);
  TapPass pass{std::move(weight_offsets),    run,      {}, s.out, 0,
               int64_t{s.out[1]} * s.out[2], s.out[2], 1};
  for (int64_t c = 0; c < s.in_channels; ++c) {
    for (const int64_t offset : offsets) {
      pass.tap_offsets.push_back(layout.front + c * layout.channel(lanes) + offset);
    }
  }
  plan.passes.push_back(std::move(pass));
  return plan;
}

namespace {

// The pass of one phase per dimension: the positions of its taps in the kernel, and their shifts.
struct GradPass {
  const GradPhase &z, &y, &x;
  std::vector<int32_t> window;
  std::vector<int64_t> shifts;
};

std::vector<GradPass> grad_passes(const ConvShape& s,
                                  const std::array<std::vector<GradPhase>, 3>& axes,
                                  const PaddedLayout& layout) {
  std::vector<GradPass> passes;
  for (const GradPhase& z : axes[0]) {
    for (const GradPhase& y : axes[1]) {
      for (const GradPhase& x : axes[2]) {
        if (z.count <= 0 || y.count <= 0 || x.count <= 0) continue;
        GradPass pass{z, y, x, {}, {}};
        for (const auto& [jz, step_z] : z.taps) {
          for (const auto& [jy, step_y] : y.taps) {
            for (const auto& [jx, step_x] : x.taps) {
              pass.window.push_back((jz * s.kernel[1] + jy) * s.kernel[2] + jx);
              pass.shifts.push_back((int64_t{step_z} * layout.padded[1] + step_y) * layout.row() +
                                    step_x);
            }
          }
        }
        passes.push_back(std::move(pass));
      }
    }
  }
  return passes;
}

}  // namespace

TapPlan plan_data_grad(const ConvShape& s, int64_t lanes, int64_t tile_pixels) {
  const auto window = static_cast<int32_t>(product(s.kernel));
  if (s.is_pointwise() && product(s.in) >= kPanelsPerPlane * tile_pixels) {
    std::vector<int32_t> weight_offsets;
    for (int32_t o = 0; o < s.out_channels; ++o) weight_offsets.push_back(o * s.in_channels);
    return read_tensor(s, s.out_channels, std::move(weight_offsets), 1);
  }
  std::array<std::vector<GradPhase>, 3> axes;
  TapPlan plan{false, {}, {}};
  PaddedLayout& layout = plan.layout;
  layout = {s.images, s.groups * s.out_channels, s.out, {1, 1, 1}, {1, 1, 1}, {}, 0, tile_pixels};
  for (size_t d = 0; d < 3; ++d) {
    axes[d] = grad_phases(s.in[d], s.kernel[d], s.stride[d], s.pad[d], s.dilation[d]);
    layout.padded[d] = grad_extent(axes[d], s.out[d]);
  }
  const auto passes = grad_passes(s, axes, layout);
  int64_t most = 0;
  for (const GradPass& pass : passes) {
    for (const int64_t shift : pass.shifts) {
      layout.front = std::max(layout.front, -shift);
      most = std::max(most, shift);
    }
  }
  layout.back += most;
  for (const auto& [z, y, x, places, shifts] : passes) {
    const auto first = [&](const GradPhase& phase, size_t d) {
      return int64_t{phase.first} * s.stride[d] + phase.r - s.pad[d];
    };
    const int64_t slice = int64_t{s.in[1]} * s.in[2];
    TapPass pass{{},
                 places.size() == static_cast<size_t>(window) ? window : 1,
                 {},
                 {z.count, y.count, x.count},
                 first(z, 0) * slice + first(y, 1) * s.in[2] + first(x, 2),
                 s.stride[0] * slice,
                 int64_t{s.stride[1]} * s.in[2],
                 s.stride[2]};
    for (int32_t o = 0; o < s.out_channels; ++o) {
      for (size_t tap = 0; tap < places.size(); ++tap) {
        pass.weight_offsets.push_back(o * s.in_channels * window + places[tap]);
        pass.tap_offsets.push_back(layout.front + o * layout.channel(lanes) + shifts[tap]);
      }
    }
    plan.passes.push_back(std::move(pass));
  }
  return plan;
}

}  // namespace ocl
