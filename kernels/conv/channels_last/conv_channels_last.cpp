#include "kernels/conv/channels_last/conv_channels_last.h"

#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>

#include "kernels/core/algorithms/dot_bfloat16.h"
#include "kernels/core/grids/vector_registers.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"

namespace ocl {
namespace channels_last {

constexpr int64_t kChannelsAtOnce = 64;  // CHANNELS of conv_channels_last_pack.cl
constexpr int32_t kFewChannels = 8;
constexpr int64_t kTasks = 32;
constexpr int32_t kLeastRows = 8;  // channels of a result: fewer leave most of a vector empty
constexpr int32_t kMaxTaps = 128;
constexpr int32_t kDepth = 128;  // items of a tile of pixels, which fits the first level cache

const char* refusal_of_call(const ConvCall& call, at::ScalarType type) {
  if (const char* reason = refusal_of_cpu_kernels(call, type)) return reason;
  const int64_t most =
      std::max({call.result.numel(), call.source.numel(),
                call.direction == ConvDirection::kWeightGrad ? call.factor.numel() : 0});
  return most < INT32_MAX ? nullptr : "a tensor has 2^31 elements or more";
}

const char* refusal_of_pairs(const ConvCall& call) {
  if (const char* reason = refusal_of_call(call, at::kBFloat16)) return reason;
  return refusal_of_dot_bfloat16(call.device);
}

void take_weights(ConvPass& pass, int32_t& along, int32_t channels, const at::Tensor& weight) {
  if (weight.suggest_memory_format() == at::MemoryFormat::Contiguous) return;
  along = 1;
  pass.weight_first *= channels;
  for (int32_t& step : pass.weight_step) step *= channels;
}

int64_t packed_size(const ConvPass& pass, int64_t panel) {
  return pass.groups * at::round_up(int64_t{pass.rows}, panel) * pass.taps * pass.channels;
}

Range pack_grid(const ConvPass& pass, int64_t panel) {
  return {static_cast<size_t>(at::ceil_div(int64_t{pass.rows}, panel)),
          static_cast<size_t>(pass.groups),
          static_cast<size_t>(at::ceil_div(int64_t{pass.channels}, kChannelsAtOnce))};
}

namespace {

struct Pack {
  bool unpack;
  int64_t vectors;

  KernelSource source(Device& device) const {
    Defines defines;
    defines.set("VW", conv_lanes(device)).set("NV", vectors).set("UNPACK", unpack);
    return {"conv_channels_last_pack.cl", unpack ? "unpack_channels_last" : "pack_channels_last",
            defines};
  }
};

struct ChannelsLast {
  const char* name;
  ScalarType type;
  Tile tile;
  bool narrow = false, pairs = false;  // NARROW and PAIRS of the kernel

  KernelSource source(Device& device) const {
    Defines defines = element_defines(type);
    defines.set("VW", conv_lanes(device)).set("MR", tile.positions).set("NV", tile.vectors);
    defines.set("NARROW", narrow).set("PAIRS", pairs);
    defines.set("MAX_TAPS", kMaxTaps).set("DEPTH", kDepth);
    return {"conv_channels_last.cl", name, defines};
  }
};

}  // namespace

const Kernel& pack_kernel(Device& device, bool unpack, int64_t vectors) {
  return find_kernel(device, Pack{unpack, vectors});
}

at::Tensor pack_weights(const ConvPass& pass, int64_t vectors, const at::Tensor& weight) {
  Device& device = ocl_device(weight);
  const int64_t panel = vectors * conv_lanes(device);
  const int64_t zeros = int64_t{pass.channels} * pass.tap_count[2];
  const at::Tensor packed = conv_scratch(packed_size(pass, panel) + zeros, weight);
  if (pass.channels > 0) {
    launch(stream_of(weight), pack_kernel(device, /*unpack=*/false, vectors),
           pack_grid(pass, panel), {}, view(packed), view(weight), pass);
  }
  return packed;
}

bool has_few_channels(const ConvShape& s) {
  const int64_t line = s.in[2] + 2 * int64_t{s.pad[2]};  // the length of a line of the padded copy
  const double padded = static_cast<double>(line) * s.in_channels * s.in[1] * s.in[0] * s.images;
  return s.in_channels < kFewChannels && s.groups == 1 && s.dilation[2] == 1 && s.pad[2] >= 0 &&
         padded < INT32_MAX;
}

void join_taps_of_rows(ConvPass& pass) {
  pass.channels *= pass.tap_count[2];
  pass.taps /= pass.tap_count[2];
  pass.tap_count[2] = 1;
}

// The sums leave registers for the weights and a pixel. Wider tiles copy fewer pixels per sum.
Tile choose_tile(const Device& device, int64_t rows) {
  if (!has_wide_registers(device)) return {6, 1};
  const int64_t lanes = conv_lanes(device);
  if (rows <= lanes) return {12, 1};
  const bool fills_wide = at::round_up(rows, 4 * lanes) == at::round_up(rows, 2 * lanes);
  return fills_wide && !device.has(Quirk::kSlowWideTiles) ? Tile{6, 4} : Tile{12, 2};
}

void run_pass(const ConvPass& pass, Tile tile, const at::Tensor& result, const at::Tensor& source,
              int32_t pitch, const at::Tensor& packed, const at::Tensor& bias) {
  Device& device = ocl_device(result);
  const ScalarType type = result.scalar_type();
  const bool pairs = type == ScalarType::BFloat16;
  const int64_t of_item = pairs ? 2 : 1;
  const int64_t items = at::ceil_div(int64_t{pass.channels}, of_item);
  const int64_t parts = std::max<int64_t>(at::ceil_div(items, int64_t{kDepth}), 1);
  const int64_t last_part = items - (parts - 1) * at::ceil_div(items, parts);
  const bool narrow = pass.channels % of_item || last_part < conv_lanes(device);
  const int64_t panels = at::ceil_div(int64_t{pass.rows}, tile.vectors * conv_lanes(device));
  const int64_t shares = at::ceil_div(kTasks, panels * pass.groups);
  const int64_t per_task = at::round_up(at::ceil_div(int64_t{pass.n}, shares), tile.positions);
  const ChannelsLast conv{"conv_channels_last", type, tile, narrow, pairs};
  launch(stream_of(result), find_kernel(device, conv),
         {static_cast<size_t>(at::ceil_div(int64_t{pass.n}, per_task)), static_cast<size_t>(panels),
          static_cast<size_t>(pass.groups)},
         {}, view(result), view(source), view(packed), view(bias.defined() ? bias : packed),
         static_cast<int32_t>(bias.defined()), pass, pitch, static_cast<int32_t>(per_task));
}

Ends ends_of_rows(const ConvPass& pass) {
  const int64_t reach = int64_t{pass.tap_count[2] - 1} * pass.spacing[2];
  const int64_t first = pass.first[2], last = first + int64_t{pass.size[2] - 1} * pass.step[2];
  return {std::max<int64_t>(0, -(first + std::min<int64_t>(reach, 0))),
          std::max<int64_t>(0, last + std::max<int64_t>(reach, 0) - (pass.source[2] - 1))};
}

at::Tensor pad_rows(ConvPass& pass, const at::Tensor& source, int32_t pitch) {
  const Ends ends = ends_of_rows(pass);
  if (ends.before + ends.after == 0) return source;
  const int64_t size = int64_t{pass.source[2]} * pitch;
  const int64_t padded = size + (ends.before + ends.after) * pitch;
  const int64_t lines = source.numel() / size, per_task = at::ceil_div(lines, kTasks);
  const at::Tensor copy = conv_scratch(lines * padded, source);
  const ChannelsLast pad{"pad_rows", source.scalar_type(), {1, 1}};
  launch(stream_of(source), find_kernel(ocl_device(source), pad),
         {static_cast<size_t>(at::ceil_div(lines, per_task))}, {}, view(copy), view(source),
         static_cast<int32_t>(lines), static_cast<int32_t>(size), static_cast<int32_t>(padded),
         static_cast<int32_t>(ends.before * pitch), static_cast<int32_t>(per_task));
  pass.source[2] += static_cast<int32_t>(ends.before + ends.after);
  pass.source_plane = pass.source[0] * pass.source[1] * pass.source[2];
  pass.first[2] += static_cast<int32_t>(ends.before);
  return copy;
}

bool has_few_taps(const ConvShape& s) {
  return int64_t{s.kernel[0]} * s.kernel[1] * s.kernel[2] <= kMaxTaps;
}

bool has_few_rows(const ConvPass& pass) { return pass.rows < kLeastRows; }

}  // namespace channels_last

namespace {

using namespace channels_last;

const char* refusal(const ConvCall& call) {
  if (const char* reason = refusal_of_call(call)) return reason;
  if (has_few_rows(call.passes().front())) return "few channels of the result";
  return has_few_taps(call.shape) ? nullptr : "too many taps";
}

void run_forward(const ConvCall& call) {
  const ConvShape& s = call.shape;
  ConvPass pass = call.passes().front();
  take_weights(pass, pass.weight_channel, s.in_channels, call.factor);
  const int32_t pitch = s.groups * s.in_channels;
  const Tile tile = choose_tile(call.device, s.out_channels);
  const at::Tensor packed = pack_weights(pass, tile.vectors, call.factor);
  at::Tensor source = call.source;
  if (has_few_channels(s)) {
    source = pad_rows(pass, call.source, pitch);
    join_taps_of_rows(pass);
  }
  run_pass(pass, tile, call.result, source, pitch, packed, call.bias);
}

void run(const ConvCall& call) {
  const ConvShape& s = call.shape;
  if (call.direction == ConvDirection::kForward) return run_forward(call);
  const int32_t pitch = s.groups * s.out_channels;
  const Tile tile = choose_tile(call.device, s.in_channels);
  for (ConvPass pass : call.passes()) {
    take_weights(pass, pass.weight_row, s.in_channels, call.factor);
    run_pass(pass, tile, call.result, call.source, pitch,
             pack_weights(pass, tile.vectors, call.factor), call.bias);
  }
}

}  // namespace

const ConvAlgorithm kConvChannelsLast{"channels_last", true, &refusal, &run};

}  // namespace ocl
