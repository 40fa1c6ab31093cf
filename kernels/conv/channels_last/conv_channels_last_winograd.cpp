// Convolutions 3x3 of channels_last tensors by Winograd's algorithm: launches of
// conv_channels_last_winograd.cl.
#include <ATen/ceil_div.h>
#include <ATen/ops/zeros.h>

#include "kernels/conv/channels_last/conv_channels_last.h"
#include "kernels/conv/cpu/winograd_order.h"
#include "kernels/core/grids/vector_registers.h"

namespace ocl {
namespace {

using namespace channels_last;

constexpr int64_t kTiles = 48, kChunk = 64;  // TILES and CHUNK of the kernels
// The sums of a register tile, and a vector of weights for each of its vectors of rows, fit into
// the registers (vector_registers.h).
struct RegisterTile {
  int64_t tiles, vectors;
};
RegisterTile register_tile(const Device& device) {
  return has_wide_registers(device) ? RegisterTile{12, 2} : RegisterTile{6, 1};
}

// Sizes that the kernels compute in the same way.
struct Sizes {
  explicit Sizes(const ConvCall& call, const ConvPass& pass)
      : lanes(conv_lanes(call.device)),
        tile(register_tile(call.device)),
        tiles(int64_t{pass.images} * at::ceil_div(pass.size[1], 2) * at::ceil_div(pass.size[2], 2)),
        channels(pass.channels),
        rows(at::round_up(int64_t{pass.rows}, panel())) {}

  int64_t lanes;
  RegisterTile tile;
  int64_t tiles, channels, rows;

  int64_t panel() const { return tile.vectors * lanes; }
  int64_t panels() const { return rows / panel(); }
  int64_t blocks() const { return at::ceil_div(tiles, kTiles); }
  int64_t u() const { return kWinogradPlanes * channels * panel(); }  // floats of u for a panel
  int64_t v() const {                                                 // floats of v for a block
    return kWinogradPlanes * (at::round_up(channels, kChunk) * kTiles + lanes);
  }
  int64_t m() const { return kWinogradPlanes * (kTiles * panel() + lanes); }
};

struct Winograd {
  const char* name;

  KernelSource source(Device& device) const {
    const RegisterTile tile = register_tile(device);
    Defines defines;
    defines.set("VW", conv_lanes(device)).set("MR", tile.tiles).set("NV", tile.vectors);
    defines.set("TILES", kTiles).set("CHUNK", kChunk);
    return {"conv_channels_last_winograd.cl", name, defines};
  }
};

// Shares of `count` vectors of channels: enough that `groups` times the shares are at
// least `tasks`.
size_t shares_of(int64_t count, int64_t tasks, int64_t groups) {
  return static_cast<size_t>(std::clamp<int64_t>(at::ceil_div(tasks, groups), 1, count));
}

void run_by_blocks(const ConvCall& call, const ConvPass& pass, const Sizes& sizes,
                   const at::Tensor& zeros) {
  Stream& stream = stream_of(call.result);
  const auto most = static_cast<int64_t>(call.device.parameters().tasks);
  const at::Tensor u = conv_scratch(sizes.panels() * sizes.u(), zeros);
  launch(stream, find_kernel(call.device, Winograd{"winograd_last_filters"}),
         {static_cast<size_t>(sizes.panels()),
          shares_of(sizes.channels / sizes.lanes, most, sizes.panels())},
         {}, view(u), view(call.factor), pass);

  const int64_t size = sizes.v() + sizes.m();
  const int64_t groups = at::ceil_div(sizes.tiles, sizes.tile.tiles);
  const int64_t tasks = winograd_tasks(call.device, groups, size);
  const at::Tensor scratch = conv_scratch(tasks * size, zeros);
  launch(stream, find_kernel(call.device, Winograd{"winograd_last_blocks"}),
         {static_cast<size_t>(tasks)}, {}, view(call.result), view(scratch), view(call.source),
         view(zeros), view(u), view(call.bias.defined() ? call.bias : zeros),
         static_cast<int32_t>(call.bias.defined()), pass, static_cast<int32_t>(sizes.tiles));
}

void run_by_panels(const ConvCall& call, const ConvPass& pass, const Sizes& sizes,
                   const at::Tensor& zeros) {
  Stream& stream = stream_of(call.result);
  const auto most = static_cast<int64_t>(call.device.parameters().tasks);
  const at::Tensor v = conv_scratch(sizes.blocks() * sizes.v(), zeros);
  launch(stream, find_kernel(call.device, Winograd{"winograd_last_pixels"}),
         {static_cast<size_t>(sizes.blocks()),
          shares_of(sizes.channels / sizes.lanes, most, sizes.blocks())},
         {}, view(v), view(call.source), view(zeros), pass, static_cast<int32_t>(sizes.tiles));

  const int64_t size = sizes.u() + sizes.m();
  const int64_t tasks = winograd_tasks(call.device, sizes.panels(), size);
  const at::Tensor scratch = conv_scratch(tasks * size, zeros);
  launch(stream, find_kernel(call.device, Winograd{"winograd_last_panels"}),
         {static_cast<size_t>(tasks)}, {}, view(call.result), view(scratch), view(v),
         view(call.factor), view(call.bias.defined() ? call.bias : zeros),
         static_cast<int32_t>(call.bias.defined()), pass, static_cast<int32_t>(sizes.tiles));
}

const char* refusal(const ConvCall& call) {
  if (const char* reason = refusal_of_call(call)) return reason;
  if (const char* reason = refusal_of_winograd(call.shape)) return reason;
  const ConvPass& pass = call.passes().front();
  const Sizes sizes(call, pass);
  if (sizes.channels % sizes.lanes != 0) return "the channels are not whole vectors";
  call.variant =
      choose_winograd_order(call, winograd_problem(call), sizes.lanes, sizes.tiles, sizes.rows);
  return call.variant == kOther ? "another algorithm is estimated or measured to be faster"
                                : nullptr;
}

void run(const ConvCall& call) {
  ConvPass pass = call.passes().front();
  const bool forward = call.direction == ConvDirection::kForward;
  take_weights(pass, forward ? pass.weight_channel : pass.weight_row, call.shape.in_channels,
               call.factor);
  const Sizes sizes(call, pass);
  const at::Tensor zeros = at::zeros({sizes.channels}, call.source.options().memory_format({}));
  const bool fits = sizes.blocks() * sizes.v() <= kMostWinogradScratch;
  (call.variant == kByRows && fits ? run_by_panels : run_by_blocks)(call, pass, sizes, zeros);
}

}  // namespace

const ConvAlgorithm kConvChannelsLastWinograd{"channels_last_winograd", true, &refusal, &run};

}  // namespace ocl
