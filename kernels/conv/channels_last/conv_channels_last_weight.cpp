// The weight gradient of channels_last convolutions: launches of conv_channels_last_weight.cl.
#include <ATen/ceil_div.h>

#include "kernels/conv/channels_last/conv_channels_last.h"
#include "kernels/core/grids/vector_registers.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"

namespace ocl {
namespace {

using namespace channels_last;

constexpr int64_t kMostTileRows = 8;
constexpr int64_t kTasks = 16;
constexpr int32_t kLeastRows = 8;        // output channels: fewer leave most of a vector empty
constexpr int32_t kLeastPositions = 16;  // positions of a block: fewer are not worth its sums

// The sizes of the arrays in local memory, in floats.
struct Room {
  int64_t grads, patch;
};

// Both arrays and the sums fit into the first level cache, and into the device's local memory.
Room room_of(const Device& device) {
  Room room{4096, 5120};
  const auto most = static_cast<int64_t>(device.properties().local_memory / sizeof(float));
  while (room.grads > 0 && room.grads + room.patch + kMostTileRows > most) {
    room = {room.grads / 2, room.patch / 2};
  }
  return room;
}

struct Block {  // the struct in conv_channels_last_weight.cl
  int32_t columns, lines, slices;
  int32_t width, height;
  int32_t chunk, joins_taps;
  int32_t blocks, per_part;
};

// Splits `all` into as few shares as allow shares of at most `most`; the size of an even share.
int32_t even_share(int32_t all, int64_t most) {
  const int64_t shares = at::ceil_div(int64_t{all}, std::clamp<int64_t>(most, 1, all));
  return static_cast<int32_t>(at::ceil_div(int64_t{all}, shares));
}

// Pixels that the taps of `positions` positions read along a dimension.
int32_t extent(const ConvShape& s, size_t d, int32_t positions) {
  return (positions - 1) * s.stride[d] + (s.kernel[d] - 1) * s.dilation[d] + 1;
}

std::optional<Block> choose_block(const ConvShape& s, Room room, int64_t lanes, int64_t panel) {
  Block block{};
  block.joins_taps = has_few_channels(s);
  block.chunk = block.joins_taps ? s.in_channels : static_cast<int32_t>(lanes);
  const int64_t positions = room.grads / panel, pixels = room.patch / block.chunk;
  const auto fits = [&] {
    block.width = extent(s, 2, block.columns);
    block.height = extent(s, 1, block.lines);
    return int64_t{block.columns} * block.lines * block.slices <= positions &&
           int64_t{block.width} * block.height * block.slices <= pixels;
  };
  block.lines = block.slices = 1;
  for (int64_t shares = 1; shares <= s.out[2]; ++shares) {
    block.columns = even_share(s.out[2], at::ceil_div(int64_t{s.out[2]}, shares));
    if (fits()) break;
  }
  if (!fits() || block.columns < std::min(kLeastPositions, s.out[2])) return std::nullopt;
  for (int32_t shares = s.out[1]; shares >= 1; --shares) {
    const int32_t before = block.lines;
    block.lines = at::ceil_div(s.out[1], shares);
    if (!fits()) {
      block.lines = before;
      break;
    }
  }
  const int32_t slices = s.images * s.out[0];
  if (block.lines == s.out[1] && block.columns == s.out[2]) {
    while (block.slices < slices) {
      ++block.slices;
      if (!fits()) break;
    }
    if (!fits()) --block.slices;
    block.slices = even_share(slices, block.slices);
  }
  fits();
  block.blocks = at::ceil_div(s.out[2], block.columns) * at::ceil_div(s.out[1], block.lines) *
                 at::ceil_div(slices, block.slices);
  return block;
}

int64_t tile_rows(const Device& device) {
  return has_wide_registers(device) ? kMostTileRows : kMostTileRows / 2;
}

struct WeightGrad {
  int64_t vectors;

  KernelSource source(Device& device) const {
    Defines defines;
    defines.set("VW", conv_lanes(device)).set("MR", tile_rows(device)).set("NV", vectors);
    const Room room = room_of(device);
    defines.set("GRADS", room.grads).set("PATCH", room.patch);
    return {"conv_channels_last_weight.cl", "conv_channels_last_weight", defines};
  }
};

int64_t vectors_of(const ConvCall& call) {
  const bool few = call.shape.out_channels <= conv_lanes(call.device);
  return few || !has_wide_registers(call.device) ? 1 : 2;
}

const char* refusal(const ConvCall& call) {
  if (const char* reason = refusal_of_call(call)) return reason;
  if (call.shape.out_channels < kLeastRows) return "few channels of the output";
  const int64_t lanes = conv_lanes(call.device);
  const auto block =
      choose_block(call.shape, room_of(call.device), lanes, vectors_of(call) * lanes);
  if (!block) return "too few positions fit local memory";
  call.plan = std::make_shared<const Block>(*block);
  return nullptr;
}

void run(const ConvCall& call) {
  const ConvShape& s = call.shape;
  const at::Tensor& weight = call.result;
  Device& device = call.device;
  const int64_t vectors = vectors_of(call), panel = vectors * conv_lanes(device);
  auto block = call.plan_as<Block>();
  ConvPass pass = forward_pass(s);
  take_weights(pass, pass.weight_channel, s.in_channels, weight);
  const ConvPass whole = pass;
  if (block.joins_taps) join_taps_of_rows(pass);
  const Range grid = pack_grid(whole, panel);
  int64_t parts = at::ceil_div(kTasks, static_cast<int64_t>(grid.x * grid.y));
  block.per_part = static_cast<int32_t>(at::ceil_div(int64_t{block.blocks}, parts));
  parts = at::ceil_div(int64_t{block.blocks}, int64_t{block.per_part});
  const int64_t size = packed_size(whole, panel);
  const at::Tensor sums = conv_scratch(parts * size, weight);
  launch(stream_of(weight), find_kernel(device, WeightGrad{vectors}),
         {grid.x, grid.y, static_cast<size_t>(parts)}, {}, view(sums), view(call.source),
         view(call.factor), pass, s.groups * s.in_channels, block);
  launch(stream_of(weight), pack_kernel(device, /*unpack=*/true, vectors), grid, {}, view(weight),
         view(sums), whole, static_cast<int32_t>(parts), size);
}

}  // namespace

const ConvAlgorithm kConvChannelsLastWeight{"channels_last", true, &refusal, &run};

}  // namespace ocl
