// Depthwise convolutions of CPU devices: launches of conv_depthwise.cl.
#include <ATen/ceil_div.h>

#include "kernels/conv/common/conv.h"
#include "kernels/conv/cpu/conv_cpu.h"
#include "kernels/core/dtype.h"

namespace ocl {
namespace {

constexpr int64_t kBand = 8192;  // floats: half of a first-level cache
constexpr int64_t kMaxKernel = 11, kMaxStep = 1 << 12;
constexpr char kSpread[] = "conv_depthwise_spread";
constexpr int64_t kTasks = 64, kLeastChannels = 8;

// The sizes of a depthwise convolution for the kernels, which have two dimensions.
struct Depthwise {
  const ConvShape& shape;
  int32_t height, width, out_height, out_width;
  int32_t pad_y, pad_x;
  int64_t pitch, rows_per_band;
};

bool has_large_step(const ConvShape& s) {
  const auto largest = [](const ConvShape::Dims& dims) { return std::max(dims[1], dims[2]); };
  return std::max({largest(s.stride), largest(s.dilation), largest(s.pad)}) >= kMaxStep;
}

// Rows of output at a time; more would leave the compiler too few registers for the weights.
int64_t rows_at_once(const ConvShape& s) { return s.kernel[1] * s.kernel[2] > 9 ? 2 : 4; }

// For a data gradient the caller exchanges the shape's `in` and `out` and gives another `pad`.
std::optional<Depthwise> depthwise(const ConvShape& s, const ConvShape::Dims& in,
                                   const ConvShape::Dims& out, const ConvShape::Dims& pad,
                                   const at::Tensor& tensor) {
  const Device& device = ocl_device(tensor);
  if (device.family() != KernelFamily::kCpu || tensor.scalar_type() != at::kFloat ||
      s.in_channels != 1 || s.groups < kLeastChannels || in[0] != 1 || out[0] != 1 ||
      s.kernel[0] != 1 || s.kernel[1] > kMaxKernel || s.kernel[2] > kMaxKernel || pad[1] < 0 ||
      pad[2] < 0 || has_large_step(s) ||
      int64_t{s.images} * s.groups * s.out_channels >= INT32_MAX) {
    return std::nullopt;
  }
  const int64_t lanes = conv_lanes(device);
  const int64_t grad_pitch = at::ceil_div(int64_t{out[2]}, lanes) * lanes;
  const int64_t reach = int64_t{s.kernel[2] - 1} * s.dilation[2] / s.stride[2];
  const int64_t pitch =
      std::max(at::ceil_div(int64_t{pad[2]} + in[2], int64_t{s.stride[2]}), grad_pitch + reach);
  const int64_t lines = (kBand - lanes) / (s.stride[2] * pitch);
  const int64_t rows = (lines - 1 - int64_t{s.kernel[1] - 1} * s.dilation[1]) / s.stride[1] + 1;
  const int64_t at_once = rows_at_once(s);
  const int64_t whole = std::min(rows, kBand / grad_pitch) / at_once * at_once;
  if (lines < 1 || whole < at_once) return std::nullopt;
  return Depthwise{s, in[1], in[2], out[1], out[2], pad[1], pad[2], pitch, whole};
}

const Kernel& depthwise_kernel(Device& device, const char* name, const ConvShape& s) {
  uint64_t code[2] = {};
  for (const auto* dims : {&s.kernel, &s.stride}) {
    code[0] = code[0] << 32 | static_cast<uint64_t>((*dims)[1]) << 16 | (*dims)[2];
  }
  for (const auto* dims : {&s.dilation, &s.pad}) {
    code[1] = code[1] << 32 | static_cast<uint64_t>((*dims)[1]) << 16 | (*dims)[2];
  }
  // Only conv_depthwise_spread is specialised by the padding.
  const bool padding = name == std::string_view(kSpread);
  static Site site;
  const KernelKey key{
      &site, {reinterpret_cast<uint64_t>(name), code[0], padding ? code[1] : code[1] >> 32}};
  return find_kernel(device, key, [&] {
    Defines defines;
    defines.set("VW", conv_lanes(device)).set("BAND", kBand).set("ROWS", rows_at_once(s));
    defines.set("KH", s.kernel[1]).set("KW", s.kernel[2]);
    defines.set("SY", s.stride[1]).set("SX", s.stride[2]);
    defines.set("DY", s.dilation[1]).set("DX", s.dilation[2]);
    if (padding) defines.set("PY", s.pad[1]).set("PX", s.pad[2]);
    return KernelSource{"conv_depthwise.cl", name, defines};
  });
}

void run(const Depthwise& d, int64_t multiplier, bool flip, const at::Tensor& result,
         const at::Tensor& source, const at::Tensor& weight, const at::Tensor& bias) {
  const int64_t channels = d.shape.groups * multiplier;
  const int64_t planes = d.shape.images * channels;
  const int64_t per_task = at::round_up(at::ceil_div(planes, kTasks), multiplier);
  launch(stream_of(result), depthwise_kernel(ocl_device(result), "conv_depthwise", d.shape),
         {static_cast<size_t>(at::ceil_div(planes, per_task))}, {}, view(result), view(source),
         view(weight), view(bias.defined() ? bias : weight), static_cast<int32_t>(bias.defined()),
         static_cast<int32_t>(planes), static_cast<int32_t>(channels),
         static_cast<int32_t>(multiplier), d.height, d.width, d.out_height, d.out_width, d.pad_y,
         d.pad_x, static_cast<int32_t>(flip), static_cast<int32_t>(d.pitch),
         static_cast<int32_t>(d.rows_per_band), static_cast<int32_t>(per_task));
}

}  // namespace

bool conv_depthwise_forward(const ConvShape& s, const at::Tensor& output, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias) {
  const auto d = depthwise(s, s.in, s.out, s.pad, output);
  if (!d || input.numel() == 0) return false;
  run(*d, s.out_channels, false, output, input, weight, bias);
  return true;
}

namespace {

// The data gradient of stride 2: the output's gradient is read with a stride of 1.
bool spread(const ConvShape& s, const at::Tensor& input, const at::Tensor& output,
            const at::Tensor& weight, const at::Tensor& bias) {
  if (s.stride[2] != 2 || s.stride[1] > 2 || !depthwise(s, s.in, s.out, s.pad, input)) return false;
  const int64_t lanes = conv_lanes(ocl_device(input));
  const auto before = [&](size_t d) {
    return std::max(0, at::ceil_div((s.kernel[d] - 1) * s.dilation[d] - s.pad[d], s.stride[d]));
  };
  const auto after = [&](size_t d) { return at::ceil_div(s.pad[d], s.stride[d]) + 1; };
  const int64_t columns = at::ceil_div(int64_t{at::ceil_div(s.in[2], 2)}, lanes) * lanes;
  const int64_t pitch = before(2) + std::max<int64_t>(columns + after(2), s.out[2]);
  const int32_t lines = before(1) + after(1);
  const int64_t rows = (kBand - lanes) / pitch - lines;
  if (rows < 1) return false;
  const int64_t planes = int64_t{s.images} * s.groups;
  const int64_t per_task = at::ceil_div(planes, kTasks);
  launch(stream_of(input), depthwise_kernel(ocl_device(input), kSpread, s),
         {static_cast<size_t>(at::ceil_div(planes, per_task))}, {}, view(input), view(output),
         view(weight), view(bias.defined() ? bias : weight), static_cast<int32_t>(bias.defined()),
         static_cast<int32_t>(planes), s.groups, s.in[1], s.in[2], s.out[1], s.out[2], before(1),
         before(2), lines, static_cast<int32_t>(pitch), static_cast<int32_t>(rows),
         static_cast<int32_t>(per_task));
  return true;
}

}  // namespace

bool conv_depthwise_data_grad(const ConvShape& s, const at::Tensor& input, const at::Tensor& output,
                              const at::Tensor& weight, const at::Tensor& bias) {
  if (s.out_channels != 1 || output.numel() == 0) return false;
  if (s.stride[1] != 1 || s.stride[2] != 1) return spread(s, input, output, weight, bias);
  ConvShape::Dims pad;
  for (size_t i = 0; i < 3; ++i) pad[i] = (s.kernel[i] - 1) * s.dilation[i] - s.pad[i];
  const auto d = depthwise(s, s.out, s.in, pad, input);
  if (!d) return false;
  run(*d, 1, true, input, output, weight, bias);
  return true;
}

bool conv_depthwise_weight_grad(const ConvShape& s, const at::Tensor& weight,
                                const at::Tensor& input, const at::Tensor& output) {
  const auto d = depthwise(s, s.in, s.out, s.pad, weight);
  if (!d) return false;
  const int32_t channels = s.groups * s.out_channels;
  launch(stream_of(weight), depthwise_kernel(ocl_device(weight), "conv_depthwise_weight", s),
         {static_cast<size_t>(channels)}, {}, view(weight), view(input), view(output), s.images,
         channels, s.out_channels, d->height, d->width, d->out_height, d->out_width, d->pad_y,
         d->pad_x, static_cast<int32_t>(d->pitch), static_cast<int32_t>(d->rows_per_band));
  return true;
}

}  // namespace ocl
