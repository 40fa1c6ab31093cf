// Convolutions of CPU devices with vectors of channels: launches of conv_broadcast.cl, whose
// head comment explains the algorithm.
#include <ATen/ceil_div.h>

#include "kernels/conv/common/conv_layout.h"
#include "kernels/conv/cpu/conv_pack.h"
#include "kernels/conv/cpu/conv_plans.h"
#include "kernels/core/grids/vector_registers.h"
#include "kernels/core/types/dtype.h"

namespace ocl {
namespace {

struct Tile {
  int32_t rows, vectors;
};

// The offsets of a convolution's pixels and taps in its source.
struct Places {
  bool reads_tensor = false;
  PaddedLayout layout{};
  std::vector<int32_t> pixels, taps;
  std::vector<int32_t> weights;  // the offset of each tap's weight
  int32_t weight_run = 1;
};

struct BroadcastPlan {
  const char* refusal = nullptr;
  bool reads_tensor = false;
  PaddedLayout layout{};
  at::Tensor start{}, step{}, offset{};
  int32_t rows = 0, depth = 0, run = 1;
};

int64_t product(const ConvShape::Dims& dims) { return int64_t{dims[0]} * dims[1] * dims[2]; }

int32_t floats_to(const ConvShape::Dims& at, const ConvShape::Dims& size) {
  return (at[0] * size[1] + at[1]) * size[2] + at[2];
}

template <typename Visit>
void for_each(const ConvShape::Dims& dims, Visit visit) {
  for (int32_t z = 0; z < dims[0]; ++z) {
    for (int32_t y = 0; y < dims[1]; ++y) {
      for (int32_t x = 0; x < dims[2]; ++x) visit(ConvShape::Dims{z, y, x});
    }
  }
}

// The pixels of `extent` in all images, `stride` apart in a source of `planes` planes.
void add_pixels(Places& places, int32_t images, int64_t planes, const ConvShape::Dims& size,
                const ConvShape::Dims& extent, const ConvShape::Dims& stride) {
  const PaddedLayout& layout = places.layout;
  const int32_t images_per_line = places.reads_tensor ? 1 : layout.images_per_line();
  for (int32_t n = 0; n < images; ++n) {
    for_each(extent, [&](const ConvShape::Dims& at) {
      const ConvShape::Dims p{at[0] * stride[0], at[1] * stride[1], at[2] * stride[2]};
      if (places.reads_tensor) {
        places.pixels.push_back(static_cast<int32_t>(n * planes * product(size)) +
                                floats_to(p, size));
      } else {
        const int64_t line =
            (int64_t{n / images_per_line} * layout.padded[0] + p[0]) * layout.padded[1] + p[1];
        places.pixels.push_back(
            static_cast<int32_t>((line * images_per_line + n % images_per_line) *
                                 layout.padded[2]) +
            p[2]);
      }
    });
  }
}

// Makes the places from a plan for stride 1.
Places places_of(TapPlan&& plan) {
  TapPass& pass = plan.passes.front();
  Places places{plan.reads_tensor, plan.layout, {}, {}, std::move(pass.weight_offsets), pass.run};
  places.taps.assign(pass.tap_offsets.begin(), pass.tap_offsets.end());
  return places;
}

Places forward_places(const ConvShape& s, int64_t lanes) {
  Places places;
  if (s.pad == ConvShape::Dims{0, 0, 0}) {
    places.reads_tensor = true;
    places.weight_run = static_cast<int32_t>(s.taps());
    for (int32_t c = 0; c < s.in_channels; ++c) {
      for_each(s.kernel, [&](const ConvShape::Dims& tap) {
        places.weights.push_back(static_cast<int32_t>(places.weights.size()));
        places.taps.push_back(
            static_cast<int32_t>(c * product(s.in)) +
            floats_to({tap[0] * s.dilation[0], tap[1] * s.dilation[1], tap[2] * s.dilation[2]},
                      s.in));
      });
    }
  } else {
    // A broadcast element can be anywhere, so the padded copy needs no phases: it has stride 1.
    ConvShape dense = s;
    dense.stride = {1, 1, 1};
    for (size_t d = 0; d < 3; ++d) dense.out[d] = (s.out[d] - 1) * s.stride[d] + 1;
    TapPlan plan = plan_forward(dense, lanes, 0, false);
    if (plan.layout.floats(lanes) >= INT32_MAX) return places;
    places = places_of(std::move(plan));
  }
  add_pixels(places, s.images, int64_t{s.groups} * s.in_channels, s.in, s.out, s.stride);
  return places;
}

Places data_grad_places(const ConvShape& s, int64_t lanes) {
  TapPlan plan = plan_data_grad(s, lanes, 0);
  if (plan.layout.floats(lanes) >= INT32_MAX) return {};
  Places places = places_of(std::move(plan));
  add_pixels(places, s.images, int64_t{s.groups} * s.out_channels, s.out, s.in, {1, 1, 1});
  return places;
}

// The sums of a tile stay in registers (vector_registers.h).
Tile choose_tile(const Device& device, int32_t channels) {
  if (!has_wide_registers(device)) return {6, 1};
  struct Candidate {
    Tile tile;
    int64_t cost;  // relative cost of a channel
  };
  constexpr Candidate kCandidates[] = {{{6, 4}, 20}, {{8, 3}, 20}, {{12, 2}, 21}, {{14, 1}, 25}};
  Tile best{};
  int64_t least = INT64_MAX;
  for (const auto& [tile, cost] : kCandidates) {
    const int64_t width = tile.vectors * conv_lanes(device);
    const int64_t total = at::round_up(int64_t{channels}, width) * cost;
    if (total < least) {
      best = tile;
      least = total;
    }
  }
  return best;
}

// Measured: conv_padded.cl is as fast where its padded planes are less than this times larger.
constexpr double kLeastWaste = 1.05;
constexpr int32_t kLeastChannels = 64;
constexpr int64_t kSmallPlane = 256;    // pixels of a small plane of a pointwise convolution
constexpr int64_t kLeastTapRows = 256;  // rows of the weights' gradient that are worth packing

// Why the broadcast kernels cannot or should not compute it.
const char* refusal_of_shape(const ConvCall& call) {
  const ConvShape& s = call.shape;
  const bool data = call.direction == ConvDirection::kDataGrad;
  const int32_t channels = data ? s.in_channels : s.out_channels;
  if (channels < kLeastChannels) return "fewer than 64 channels of the result";
  // The tables of offsets are int32.
  const int64_t largest = std::max(s.in_channels * product(s.in), s.out_channels * product(s.out));
  if (int64_t{s.images} * s.groups * largest >= INT32_MAX) return "2^31 elements or more";
  const bool unpadded = s.pad == ConvShape::Dims{0, 0, 0};
  const bool pointwise = unpadded && product(s.kernel) == 1;
  const int64_t lanes = conv_lanes(call.device);
  const TapPlan taps = data ? plan_data_grad(s, lanes, 0) : plan_forward(s, lanes, 0, false);
  const double waste = static_cast<double>(product(taps.layout.padded)) /
                       static_cast<double>(product(data ? s.in : s.out));
  const char* const little_waste = "the padded planes are hardly larger";
  if (call.direction == ConvDirection::kWeightGrad) {
    const int64_t panels = at::ceil_div(int64_t{channels}, int64_t{kLeastChannels});
    if (s.taps() * panels * s.groups < kLeastTapRows) return "few weights";
    return unpadded || waste >= kLeastWaste ? nullptr : little_waste;
  }
  if (pointwise) {
    return product(s.stride) > 1 || product(s.out) < kSmallPlane
               ? nullptr
               : "a pointwise one of large planes";
  }
  return waste >= kLeastWaste ? nullptr : little_waste;
}

BroadcastPlan make_plan(const ConvCall& call) {
  const ConvShape& s = call.shape;
  const at::Tensor& like = call.result;
  const int64_t lanes = conv_lanes(call.device);
  const bool data = call.direction == ConvDirection::kDataGrad;
  if (const char* reason = refusal_of_shape(call)) return {.refusal = reason};
  const Places places = data ? data_grad_places(s, lanes) : forward_places(s, lanes);
  if (places.taps.empty()) return {.refusal = "the padded copy has 2^31 elements or more"};
  BroadcastPlan plan{.reads_tensor = places.reads_tensor,
                     .layout = places.layout,
                     .start = conv_table(places.pixels, like),
                     .step = conv_table(places.taps, like),
                     .rows = static_cast<int32_t>(places.pixels.size()),
                     .depth = static_cast<int32_t>(places.taps.size()),
                     .run = places.weight_run};
  if (call.direction == ConvDirection::kWeightGrad) {
    std::swap(plan.start, plan.step);
    std::swap(plan.rows, plan.depth);
    // The factors are the output's gradient, in its own layout.
    std::vector<int32_t> offsets;
    const auto plane = static_cast<int32_t>(product(s.out));
    for (int32_t n = 0; n < s.images; ++n) {
      const int32_t image = n * s.groups * s.out_channels * plane;
      for (int32_t p = 0; p < plane; ++p) offsets.push_back(image + p);
    }
    plan.offset = conv_table(offsets, like);
    plan.run = plane;
  } else {
    plan.offset = conv_table(places.weights, like);
  }
  return plan;
}

constexpr int64_t kDepth = 256;  // taps or pixels that are packed at a time

struct Broadcast {
  Tile tile;
  int64_t depth;
  EpilogueCode epilogue;

  KernelSource source(Device& device) const {
    Defines defines;
    defines.set("VW", conv_lanes(device)).set("KC", depth);
    defines.set("MR", tile.rows).set("NV", tile.vectors);
    epilogue.define(defines);
    return {"conv_broadcast.cl", "conv_broadcast", defines};
  }
};

// The operand that the kernel packs, and the result's shape.
struct Factor {
  const at::Tensor& tensor;
  int32_t channels;  // channels of one group of the result
  int64_t channel_stride, group_stride;
  int32_t plane;
};

// The struct of conv_broadcast.cl.
struct Product {
  int64_t source_group;
  int64_t factor_channel, factor_group, factors;
  int32_t has_bias, channels, rows, depth, run, plane;
  int32_t rows_per_task;
};

void launch_broadcast(const ConvCall& call, const Factor& f, int64_t source_channels) {
  const ConvShape& s = call.shape;
  const auto& plan = call.plan_as<BroadcastPlan>();
  const at::Tensor &result = call.result, &source = call.source, &bias = call.bias;
  const Epilogue& epilogue = call.epilogue;
  Device& device = call.device;
  const int64_t lanes = conv_lanes(device);
  const Tile tile = choose_tile(device, f.channels);
  const int64_t width = tile.vectors * lanes;
  const int64_t row_bytes = width * static_cast<int64_t>(sizeof(float));
  int64_t depth = kDepth;
  while ((depth + lanes) * row_bytes > static_cast<int64_t>(device.properties().local_memory)) {
    depth /= 2;
  }
  const int64_t panels = at::ceil_div(int64_t{f.channels}, width);
  const int64_t splits = at::ceil_div(kConvTasks, panels * s.groups);
  const int64_t rows_per_task =
      at::round_up(at::ceil_div(int64_t{plan.rows}, splits), int64_t{tile.rows});
  const int64_t tasks = at::ceil_div(int64_t{plan.rows}, rows_per_task);
  const at::Tensor sums = conv_scratch(s.groups * panels * tasks * rows_per_task * width, result);
  const at::Tensor read = plan.reads_tensor ? source : conv_pad(plan.layout, source);
  const int64_t channel = plan.reads_tensor
                              ? source.numel() / (int64_t{s.images} * s.groups * source_channels)
                              : plan.layout.channel(lanes);
  const Product product{
      .source_group = source_channels * channel,
      .factor_channel = f.channel_stride,
      .factor_group = f.group_stride,
      .factors = f.tensor.numel(),
      .has_bias = bias.defined(),
      .channels = f.channels,
      .rows = plan.rows,
      .depth = plan.depth,
      .run = plan.run,
      .plane = f.plane,
      .rows_per_task = static_cast<int32_t>(rows_per_task),
  };
  launch(stream_of(result), find_kernel(device, Broadcast{tile, depth, epilogue.code()}),
         {static_cast<size_t>(panels), static_cast<size_t>(tasks), static_cast<size_t>(s.groups)},
         {}, view(result), view(sums), view(read), view(plan.start), view(plan.step),
         view(f.tensor), view(plan.offset), view(bias.defined() ? bias : f.tensor),
         epilogue.residual_or(result), product);
}

const char* refusal(const ConvCall& call) {
  if (const char* reason = refusal_of_cpu_kernels(call)) return reason;
  if (call.result.numel() >= INT32_MAX) return "the result has 2^31 elements or more";
  if (call.direction == ConvDirection::kDataGrad && call.shape.stride != ConvShape::Dims{1, 1, 1}) {
    return "the stride is not 1";
  }
  static auto* const plans = new ConvPlans<BroadcastPlan>;
  const auto plan = plans->find(call, [&] { return make_plan(call); });
  call.plan = plan;
  return plan->refusal;
}

Factor factor_of(const ConvCall& call) {
  const ConvShape& s = call.shape;
  const int64_t plane = product(s.out);
  switch (call.direction) {
    case ConvDirection::kForward:
      return {call.factor, s.out_channels, s.taps(), s.out_channels * s.taps(),
              static_cast<int32_t>(plane)};
    case ConvDirection::kDataGrad:
      return {call.factor, s.in_channels, s.taps() / s.in_channels, s.out_channels * s.taps(),
              static_cast<int32_t>(product(s.in))};
    default:
      return {call.factor, s.out_channels, plane, s.out_channels * plane,
              static_cast<int32_t>(s.taps())};
  }
}

void run(const ConvCall& call) {
  const bool data = call.direction == ConvDirection::kDataGrad;
  launch_broadcast(call, factor_of(call), data ? call.shape.out_channels : call.shape.in_channels);
}

}  // namespace

const ConvAlgorithm kConvBroadcast{"broadcast", false, &refusal, &run};

}  // namespace ocl
