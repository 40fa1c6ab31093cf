// Depthwise convolutions of CPU devices: launches of conv_depthwise.cl.
#include <ATen/ceil_div.h>

#include "kernels/conv/cpu/conv_plans.h"
#include "kernels/core/types/dtype.h"

namespace ocl {
namespace {

constexpr int64_t kBand = 8192;  // floats: half of a first-level cache
constexpr int64_t kMaxKernel = 11, kMaxStep = 1 << 12;
constexpr int64_t kTasks = 64, kLeastChannels = 8;

// The sizes of a depthwise convolution for the kernels, which have two dimensions.
// The struct of conv_depthwise.cl.
struct Planes {
  int32_t images = 0, planes = 0, channels = 0, multiplier = 1;
  int32_t in_h = 0, in_w = 0, out_h = 0, out_w = 0, pad_y = 0, pad_x = 0;
  int32_t has_bias = 0, flip = 0;
  int32_t pitch = 0, rows_per_band = 0, lines = 0, planes_per_task = 0;
};

struct Depthwise {
  const ConvShape& shape;
  int32_t height, width, out_height, out_width;
  int32_t pad_y, pad_x;
  int64_t pitch, rows_per_band;

  Planes planes() const {
    return {.images = shape.images,
            .in_h = height,
            .in_w = width,
            .out_h = out_height,
            .out_w = out_width,
            .pad_y = pad_y,
            .pad_x = pad_x,
            .pitch = static_cast<int32_t>(pitch),
            .rows_per_band = static_cast<int32_t>(rows_per_band)};
  }
};

bool has_large_step(const ConvShape& s) {
  const auto largest = [](const ConvShape::Dims& dims) { return std::max(dims[1], dims[2]); };
  return std::max({largest(s.stride), largest(s.dilation), largest(s.pad)}) >= kMaxStep;
}

// Rows of output at a time; more would leave the compiler too few registers for the weights.
int64_t rows_at_once(int32_t height, int32_t width) { return height * width > 9 ? 2 : 4; }

const char* refusal_of_sizes(const ConvShape& s, const ConvShape::Dims& in,
                             const ConvShape::Dims& out, const ConvShape::Dims& pad) {
  if (s.in_channels != 1) return "not depthwise";
  if (s.groups < kLeastChannels) return "few groups";
  // With padding in depth and a stride, a kernel of depth 1 may meet the padding only.
  if (in[0] != 1 || out[0] != 1 || s.kernel[0] != 1 || s.pad[0] != 0) return "three dimensions";
  if (s.kernel[1] > kMaxKernel || s.kernel[2] > kMaxKernel) return "the kernel is too large";
  if (pad[1] < 0 || pad[2] < 0) return "the padding is negative";
  if (has_large_step(s)) return "a large stride, dilation or padding";
  if (int64_t{s.images} * s.groups * s.out_channels >= INT32_MAX) return "too many planes";
  return nullptr;
}

// nullopt if a line of the image is too long. The sizes are not refused.
std::optional<Depthwise> fit(const Device& device, const ConvShape& s, const ConvShape::Dims& in,
                             const ConvShape::Dims& out, const ConvShape::Dims& pad) {
  const int64_t lanes = conv_lanes(device);
  const int64_t grad_pitch = at::round_up(int64_t{out[2]}, lanes);
  const int64_t reach = int64_t{s.kernel[2] - 1} * s.dilation[2] / s.stride[2];
  const int64_t pitch =
      std::max(at::ceil_div(int64_t{pad[2]} + in[2], int64_t{s.stride[2]}), grad_pitch + reach);
  const int64_t lines = (kBand - lanes) / (s.stride[2] * pitch);
  const int64_t rows = (lines - 1 - int64_t{s.kernel[1] - 1} * s.dilation[1]) / s.stride[1] + 1;
  const int64_t at_once = rows_at_once(s.kernel[1], s.kernel[2]);
  const int64_t whole = std::min(rows, kBand / grad_pitch) / at_once * at_once;
  if (lines < 1 || whole < at_once) return std::nullopt;
  return Depthwise{s, in[1], in[2], out[1], out[2], pad[1], pad[2], pitch, whole};
}

enum class DepthwiseOp : uint8_t { kPlanes, kSpread, kWeight };

struct DepthwiseKernel {
  DepthwiseOp op;
  int32_t height, width, stride_y, stride_x, dilation_y, dilation_x;
  int32_t pad_y, pad_x;  // 0 except for kSpread

  KernelSource source(Device& device) const {
    static constexpr const char* kNames[] = {"conv_depthwise", "conv_depthwise_spread",
                                             "conv_depthwise_weight"};
    Defines defines;
    defines.set("VW", conv_lanes(device))
        .set("BAND", kBand)
        .set("ROWS", rows_at_once(height, width));
    defines.set("KH", height).set("KW", width);
    defines.set("SY", stride_y).set("SX", stride_x);
    defines.set("DY", dilation_y).set("DX", dilation_x);
    if (op == DepthwiseOp::kSpread) defines.set("PY", pad_y).set("PX", pad_x);
    if (op == DepthwiseOp::kWeight) defines.set("WEIGHT_GRADIENT", 1);
    return {"conv_depthwise.cl", kNames[static_cast<int>(op)], defines};
  }
};

const Kernel& depthwise_kernel(Device& device, DepthwiseOp op, const ConvShape& s) {
  const bool pads = op == DepthwiseOp::kSpread;
  return find_kernel(
      device, DepthwiseKernel{op, s.kernel[1], s.kernel[2], s.stride[1], s.stride[2], s.dilation[1],
                              s.dilation[2], pads ? s.pad[1] : 0, pads ? s.pad[2] : 0});
}

void run_planes(const ConvCall& call, const Depthwise& d, int64_t multiplier, bool flip) {
  const at::Tensor &weight = call.factor, &bias = call.bias;
  const int64_t channels = d.shape.groups * multiplier;
  const int64_t planes = d.shape.images * channels;
  const int64_t per_task = at::round_up(at::ceil_div(planes, kTasks), multiplier);
  Planes arguments = d.planes();
  arguments.planes = static_cast<int32_t>(planes);
  arguments.channels = static_cast<int32_t>(channels);
  arguments.multiplier = static_cast<int32_t>(multiplier);
  arguments.has_bias = bias.defined();
  arguments.flip = flip;
  arguments.planes_per_task = static_cast<int32_t>(per_task);
  launch(stream_of(call.result), depthwise_kernel(call.device, DepthwiseOp::kPlanes, d.shape),
         {static_cast<size_t>(at::ceil_div(planes, per_task))}, {}, view(call.result),
         view(call.source), view(weight), view(bias.defined() ? bias : weight), arguments);
}

// The data gradient of stride 2 reads the output's gradient with a stride of 1.
struct Spread {
  int32_t before_y, before_x, lines;
  int64_t pitch, rows;
};

Spread spread_of(const Device& device, const ConvShape& s) {
  const int64_t lanes = conv_lanes(device);
  const auto before = [&](size_t d) {
    return std::max(0, at::ceil_div((s.kernel[d] - 1) * s.dilation[d] - s.pad[d], s.stride[d]));
  };
  const auto after = [&](size_t d) { return at::ceil_div(s.pad[d], s.stride[d]) + 1; };
  const int64_t columns = at::round_up(int64_t{at::ceil_div(s.in[2], 2)}, lanes);
  const int64_t pitch = before(2) + std::max<int64_t>(columns + after(2), s.out[2]);
  const int32_t lines = before(1) + after(1);
  return {before(1), before(2), lines, pitch, (kBand - lanes) / pitch - lines};
}

bool is_strided(const ConvShape& s) { return s.stride[1] != 1 || s.stride[2] != 1; }

// A convolution of the output's gradient with filters rotated by 180 degrees.
ConvShape::Dims data_grad_pad(const ConvShape& s) {
  ConvShape::Dims pad;
  for (size_t i = 0; i < 3; ++i) pad[i] = (s.kernel[i] - 1) * s.dilation[i] - s.pad[i];
  return pad;
}

constexpr char kLongLines[] = "lines are too long";

const char* refusal_of_data_grad(const ConvCall& call) {
  const ConvShape& s = call.shape;
  if (s.out_channels != 1) return "more than one filter of a channel";
  if (!is_strided(s)) {
    const ConvShape::Dims pad = data_grad_pad(s);
    if (const char* reason = refusal_of_sizes(s, s.out, s.in, pad)) return reason;
    return fit(call.device, s, s.out, s.in, pad) ? nullptr : kLongLines;
  }
  if (s.stride[2] != 2 || s.stride[1] > 2) return "the stride is neither 1 nor 2";
  if (const char* reason = refusal_of_sizes(s, s.in, s.out, s.pad)) return reason;
  const bool fits = fit(call.device, s, s.in, s.out, s.pad) && spread_of(call.device, s).rows >= 1;
  return fits ? nullptr : kLongLines;
}

const char* refusal(const ConvCall& call) {
  const ConvShape& s = call.shape;
  if (const char* reason = refusal_of_cpu_kernels(call)) return reason;
  if (call.direction == ConvDirection::kDataGrad) return refusal_of_data_grad(call);
  if (const char* reason = refusal_of_sizes(s, s.in, s.out, s.pad)) return reason;
  return fit(call.device, s, s.in, s.out, s.pad) ? nullptr : kLongLines;
}

void run_spread(const ConvCall& call) {
  const ConvShape& s = call.shape;
  const at::Tensor& bias = call.bias;
  const Spread spread = spread_of(call.device, s);
  const int64_t planes = int64_t{s.images} * s.groups;
  const int64_t per_task = at::ceil_div(planes, kTasks);
  const Planes arguments{.images = s.images,
                         .planes = static_cast<int32_t>(planes),
                         .channels = s.groups,
                         .multiplier = 1,
                         .in_h = s.in[1],
                         .in_w = s.in[2],
                         .out_h = s.out[1],
                         .out_w = s.out[2],
                         .pad_y = spread.before_y,
                         .pad_x = spread.before_x,
                         .has_bias = bias.defined(),
                         .pitch = static_cast<int32_t>(spread.pitch),
                         .rows_per_band = static_cast<int32_t>(spread.rows),
                         .lines = spread.lines,
                         .planes_per_task = static_cast<int32_t>(per_task)};
  launch(stream_of(call.result), depthwise_kernel(call.device, DepthwiseOp::kSpread, s),
         {static_cast<size_t>(at::ceil_div(planes, per_task))}, {}, view(call.result),
         view(call.source), view(call.factor), view(bias.defined() ? bias : call.factor),
         arguments);
}

void run_weight_grad(const ConvCall& call) {
  const ConvShape& s = call.shape;
  const Depthwise d = *fit(call.device, s, s.in, s.out, s.pad);
  const int32_t channels = s.groups * s.out_channels;
  Planes arguments = d.planes();
  arguments.channels = channels;
  arguments.multiplier = s.out_channels;
  launch(stream_of(call.result), depthwise_kernel(call.device, DepthwiseOp::kWeight, s),
         {static_cast<size_t>(channels)}, {}, view(call.result), view(call.source),
         view(call.factor), arguments);
}

void run(const ConvCall& call) {
  const ConvShape& s = call.shape;
  if (call.direction == ConvDirection::kWeightGrad) return run_weight_grad(call);
  if (call.direction == ConvDirection::kForward) {
    run_planes(call, *fit(call.device, s, s.in, s.out, s.pad), s.out_channels, false);
    return apply_epilogue(call.epilogue, call.result, call.result);
  }
  if (is_strided(s)) return run_spread(call);
  run_planes(call, *fit(call.device, s, s.out, s.in, data_grad_pad(s)), 1, true);
}

}  // namespace

const ConvAlgorithm kConvDepthwise{"depthwise", false, &refusal, &run};

}  // namespace ocl
