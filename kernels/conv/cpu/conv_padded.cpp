// Convolutions of CPU devices on a padded copy of the input: launches of conv_pack.cl and
// conv_padded.cl, whose head comments explain the algorithm.
#include <ATen/ceil_div.h>

#include "kernels/conv/common/conv_layout.h"
#include "kernels/conv/cpu/conv_pack.h"
#include "kernels/conv/cpu/conv_plans.h"
#include "kernels/core/grids/vector_registers.h"
#include "kernels/core/types/dtype.h"

namespace ocl {
namespace {

constexpr int64_t kWeightPartPixels = 25000;  // pixels per task of the weight gradient
constexpr char kPack[] = "conv_pack.cl", kTaps[] = "conv_padded.cl";
constexpr int64_t kManyTasks = 64;

// A plan whose tables are on the device.
struct DevicePlan {
  TapPlan plan;
  ConvTile tile;
  std::vector<at::Tensor> weight_offsets, tap_offsets;  // int32, one per pass
  bool possible;
};

// The register tile of a forward pass; its number of channels is a power of two (conv_pack.cl).
ConvTile choose_tile(const Device& device, int32_t channels) {
  if (channels == 1) return {1, 4};
  if (!has_wide_registers(device)) return {4, 1};
  return channels <= 4 ? ConvTile{4, 4} : ConvTile{8, 3};
}

// The register tile of the weight gradient.
struct WeightTile {
  int64_t rows, taps, lanes;
};

WeightTile weight_tile(const Device& device) {
  return has_wide_registers(device) ? WeightTile{4, 6, conv_lanes(device)}
                                    : WeightTile{4, 3, std::min<int64_t>(conv_lanes(device), 8)};
}

PaddedLayout grad_layout(const ConvShape& s, const TapPlan& plan) {
  return {s.images,  s.groups * s.out_channels, s.out, {1, 1, 1},
          {1, 1, 1}, plan.layout.padded,        0,     0};
}

DevicePlan make_plan(const ConvCall& call) {
  const ConvShape& s = call.shape;
  const int64_t lanes = conv_lanes(call.device);
  const bool data = call.direction == ConvDirection::kDataGrad;
  DevicePlan made{
      {}, choose_tile(call.device, data ? s.in_channels : s.out_channels), {}, {}, true};
  const int64_t pixels = made.tile.vectors * lanes;
  made.plan = data ? plan_data_grad(s, lanes, pixels)
                   : plan_forward(s, lanes, pixels, call.direction == ConvDirection::kForward);
  made.possible = made.plan.layout.floats(lanes) < INT32_MAX &&
                  (call.direction != ConvDirection::kWeightGrad ||
                   grad_layout(s, made.plan).floats(lanes) < INT32_MAX);
  if (!made.possible) return made;
  for (const TapPass& pass : made.plan.passes) {
    made.weight_offsets.push_back(conv_table(pass.weight_offsets, call.result));
    made.tap_offsets.push_back(
        conv_table({pass.tap_offsets.begin(), pass.tap_offsets.end()}, call.result));
  }
  return made;
}

const char* refusal(const ConvCall& call) {
  if (const char* reason = refusal_of_cpu_kernels(call)) return reason;
  if (call.result.numel() >= INT32_MAX) return "the result has 2^31 elements or more";
  static auto* const plans = new ConvPlans<DevicePlan>;
  const auto plan = plans->find(call, [&] { return make_plan(call); });
  call.plan = plan;
  return plan->possible ? nullptr : "the padded copy has 2^31 elements or more";
}

struct ConvPadded {
  const char *file, *name;
  ConvTile tile{};  // empty for the weight gradient
  EpilogueCode epilogue{};

  KernelSource source(Device& device) const {
    Defines defines;
    epilogue.define(defines);
    if (tile.channels) {
      defines.set("VW", conv_lanes(device)).set("MR", tile.channels).set("NV", tile.vectors);
    } else {
      const WeightTile of = weight_tile(device);
      defines.set("VW", of.lanes).set("WEIGHT_ROWS", of.rows).set("WEIGHT_TAPS", of.taps);
    }
    return {file, name, defines};
  }
};

// The struct of conv_padded.cl.
struct Taps {
  int64_t x_image, x_group;
  int64_t out_image, out_channel, out_slice, out_row, out_column;
  int32_t has_bias, reads_tensor;
  int32_t channels, taps, groups, pixels;
  int32_t images_per_line, slices, padded_rows, pitch;
  int32_t out_depth, out_height, out_width;
  int32_t panels_per_task, tiles_per_task;
};

// The strides of the weights of a pass, and of its output.
struct TapLaunch {
  int32_t channels;  // channels of one group of the result
  int64_t channel_stride, group_stride;
  int64_t source_channels;  // source channels of one group
  int64_t out_channel;
  Epilogue epilogue = {};
};

void run_pass(const ConvShape& s, const DevicePlan& plan, size_t index, const TapLaunch& t,
              const at::Tensor& result, const at::Tensor& source, const at::Tensor& weight,
              const at::Tensor& bias) {
  Device& device = ocl_device(result);
  Stream& stream = stream_of(result);
  const TapPass& pass = plan.plan.passes[index];
  const PaddedLayout& layout = plan.plan.layout;
  const int64_t lanes = conv_lanes(device);
  const auto taps = static_cast<int32_t>(pass.weight_offsets.size());
  const int64_t tiles = at::ceil_div(t.channels, plan.tile.channels);
  const at::Tensor packed = conv_scratch(s.groups * tiles * taps * plan.tile.channels, result);
  if (taps > 0) {
    launch(stream, find_kernel(device, ConvPadded{kPack, "pack_weights", plan.tile}),
           {static_cast<size_t>(tiles), static_cast<size_t>(s.groups)}, {}, view(packed),
           view(weight), view(plan.weight_offsets[index]), t.channels, taps, pass.run,
           t.channel_stride, t.group_stride, weight.numel());
  }
  const bool direct = plan.plan.reads_tensor;
  const int64_t pixels = layout.pixels(pass.extent);
  const int64_t channel = direct ? pixels : layout.channel(lanes);
  const int64_t images_apart = direct ? t.source_channels * s.groups * channel : 0;
  const int64_t z = direct ? int64_t{s.images} * s.groups : s.groups;
  const int64_t panels = at::ceil_div(pixels, plan.tile.vectors * lanes);
  // Split the work by panels of pixels; if that makes too few tasks, by tiles of channels, too.
  const int64_t panels_per_task = tiles == 1 && panels * z > kManyTasks
                                      ? std::clamp<int64_t>(panels * z / kManyTasks, 1, panels)
                                      : 1;
  const int64_t columns = at::ceil_div(panels, panels_per_task);
  const int64_t tiles_per_task = columns * z >= kConvTasks
                                     ? tiles
                                     : at::ceil_div(tiles, at::ceil_div(kConvTasks, columns * z));
  BufferView out = view(result);
  out.offset += pass.out_first * sizeof(float);
  const Taps arguments{
      .x_image = images_apart,
      .x_group = t.source_channels * channel,
      .out_image = t.out_channel * t.channels * s.groups,
      .out_channel = t.out_channel,
      .out_slice = pass.out_slice,
      .out_row = pass.out_row,
      .out_column = pass.out_column,
      .has_bias = bias.defined(),
      .reads_tensor = direct,
      .channels = t.channels,
      .taps = taps,
      .groups = s.groups,
      .pixels = static_cast<int32_t>(pixels),
      .images_per_line = layout.images_per_line(),
      .slices = layout.padded[0],
      .padded_rows = layout.padded[1],
      .pitch = layout.padded[2],
      .out_depth = pass.extent[0],
      .out_height = pass.extent[1],
      .out_width = pass.extent[2],
      .panels_per_task = static_cast<int32_t>(panels_per_task),
      .tiles_per_task = static_cast<int32_t>(tiles_per_task),
  };
  const ConvPadded kernel{kTaps, "conv_taps", plan.tile, t.epilogue.code()};
  launch(stream, find_kernel(device, kernel),
         {static_cast<size_t>(columns), static_cast<size_t>(at::ceil_div(tiles, tiles_per_task)),
          static_cast<size_t>(z)},
         {}, out, view(source), view(packed), view(plan.tap_offsets[index]),
         view(bias.defined() ? bias : packed), t.epilogue.residual_or(result), arguments);
}

void run_passes(const ConvCall& call, const TapLaunch& t) {
  const auto& plan = call.plan_as<DevicePlan>();
  const at::Tensor read =
      plan.plan.reads_tensor ? call.source : conv_pad(plan.plan.layout, call.source);
  for (size_t i = 0; i < plan.plan.passes.size(); ++i) {
    run_pass(call.shape, plan, i, t, call.result, read, call.factor, call.bias);
  }
}

void run_weight_grad(const ConvCall& call) {
  const ConvShape& s = call.shape;
  const at::Tensor& weight = call.result;
  const auto& plan = call.plan_as<DevicePlan>();
  Device& device = call.device;
  Stream& stream = stream_of(weight);
  const int64_t lanes = conv_lanes(device);
  const PaddedLayout &x_layout = plan.plan.layout, y_layout = grad_layout(s, plan.plan);
  const at::Tensor x = conv_pad(x_layout, call.source);
  const at::Tensor grad = conv_pad(y_layout, call.factor);

  const auto taps = static_cast<int32_t>(s.taps());
  const WeightTile tile = weight_tile(device);
  const int64_t tap_tiles = at::ceil_div(int64_t{taps}, tile.taps);
  const int64_t row_tiles = at::ceil_div(int64_t{s.out_channels}, tile.rows);
  const int64_t pixels = x_layout.pixels(s.out);
  int64_t parts = std::max(at::ceil_div(pixels, kWeightPartPixels),
                           at::ceil_div(int64_t{8}, tap_tiles * row_tiles * s.groups));
  parts = std::clamp<int64_t>(parts, 1, std::max<int64_t>(1, pixels / 256));
  const int64_t per_part = at::round_up(at::ceil_div(pixels, parts), lanes);
  parts = at::ceil_div(pixels, per_part);

  const int64_t count = weight.numel();
  const at::Tensor sums = parts == 1 ? weight : conv_scratch(parts * count, weight);
  launch(stream, find_kernel(device, ConvPadded{kTaps, "conv_weight_grad"}),
         {static_cast<size_t>(tap_tiles), static_cast<size_t>(s.groups * row_tiles),
          static_cast<size_t>(parts)},
         {}, view(sums), view(x), view(grad), view(plan.tap_offsets[0]), s.groups, s.out_channels,
         taps, static_cast<int32_t>(pixels), s.in_channels * x_layout.channel(lanes),
         y_layout.channel(lanes), static_cast<int32_t>(per_part));
  if (parts > 1) {
    const int64_t per_task = at::ceil_div(count, int64_t{8});
    launch(stream, find_kernel(device, ConvPadded{kTaps, "sum_parts"}),
           {static_cast<size_t>(at::ceil_div(count, per_task))}, {}, view(weight), view(sums),
           static_cast<int32_t>(parts), count, per_task);
  }
}

void run(const ConvCall& call) {
  const ConvShape& s = call.shape;
  const int64_t window = s.taps() / s.in_channels;
  const auto product = [](const ConvShape::Dims& dims) {
    return int64_t{dims[0]} * dims[1] * dims[2];
  };
  switch (call.direction) {
    case ConvDirection::kForward:
      return run_passes(call, {s.out_channels, s.taps(), s.out_channels * s.taps(), s.in_channels,
                               product(s.out), call.epilogue});
    case ConvDirection::kDataGrad:
      return run_passes(
          call, {s.in_channels, window, s.out_channels * s.taps(), s.out_channels, product(s.in)});
    case ConvDirection::kWeightGrad:
      return run_weight_grad(call);
  }
}

}  // namespace

const ConvAlgorithm kConvPadded{"padded", false, &refusal, &run};

}  // namespace ocl
