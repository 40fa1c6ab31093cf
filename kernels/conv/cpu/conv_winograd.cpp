// Convolutions 3x3 of CPU devices by Winograd's algorithm: launches of conv_winograd.cl.
#include <ATen/ceil_div.h>

#include "backend/tuning.h"
#include "kernels/conv/cpu/conv_plans.h"
#include "kernels/core/dtype.h"

namespace ocl {
namespace {

constexpr int64_t kBlockVectors = 3;
constexpr int64_t kTile = 2;     // results of a tile in each dimension
constexpr int64_t kPlanes = 16;  // products of a tile

constexpr int64_t kMostScratch = int64_t{1} << 26;  // floats

// Another algorithm, or the two of conv_winograd.cl.
enum Variant : int64_t { kOther, kByTiles, kByRows, kVariants };
Tunable tunable("conv_cpu");

// The structs of these names in the kernels.
struct Geometry {
  int32_t images, rows, channels;
  int32_t in_height, in_width, height, width;
  int32_t pad_y, pad_x;
};
struct Filters {
  int32_t rows, channels;
  int32_t flipped;
  int64_t row_stride, channel_stride;
};

struct Problem {
  Geometry geometry;
  Filters filters;

  int64_t tiles() const {
    return geometry.images * at::ceil_div(int64_t{geometry.height}, kTile) *
           at::ceil_div(int64_t{geometry.width}, kTile);
  }
};

Problem forward_problem(const ConvShape& s) {
  return {{s.images, s.out_channels, s.in_channels, s.in[1], s.in[2], s.out[1], s.out[2], s.pad[1],
           s.pad[2]},
          {s.out_channels, s.in_channels, 0, s.taps(), s.kernel[1] * s.kernel[2]}};
}

// A convolution of the output's gradient with filters rotated by 180 degrees.
Problem data_grad_problem(const ConvShape& s) {
  return {{s.images, s.in_channels, s.out_channels, s.out[1], s.out[2], s.in[1], s.in[2],
           s.kernel[1] - 1 - s.pad[1], s.kernel[2] - 1 - s.pad[2]},
          {s.in_channels, s.out_channels, 1, s.kernel[1] * s.kernel[2], s.taps()}};
}

Problem problem_of(const ConvCall& call) {
  return call.direction == ConvDirection::kForward ? forward_problem(call.shape)
                                                   : data_grad_problem(call.shape);
}

const char* refusal_of_shape(const ConvShape& s) {
  if (s.groups != 1) return "more than one group";
  if (s.in[0] != 1 || s.out[0] != 1 || s.pad[0] != 0) return "three dimensions";
  if (s.kernel != ConvShape::Dims{1, 3, 3}) return "the kernel is not 3x3";
  if (s.stride != ConvShape::Dims{1, 1, 1}) return "the stride is not 1";
  if (s.dilation[1] != 1 || s.dilation[2] != 1) return "the dilation is not 1";
  return nullptr;
}

int64_t lanes_of(const Device& device) {
  return std::clamp<int64_t>(device.properties().native_vector_width_float, 4, 16);
}

// Measured costs in multiply-adds of transforming a tile of one channel (in one lane of a vector),
// and of transforming a filter.
constexpr int64_t kTileCost = 80, kFilterCost = 100;
// kByTiles reads all transformed filters again for each block of tiles; kByRows reads all
// transformed inputs again for each vector of rows (channels of the result). kByRows is faster with
// at most kTilesPerRow tiles per row, if there are enough vectors of rows for the tasks.
constexpr int64_t kTilesPerRow = 4, kLeastRowVectors = 4;

Variant faster_variant(const Device& device, const Problem& p) {
  const Geometry& g = p.geometry;
  const int64_t lanes = lanes_of(device), channels = g.channels;
  const int64_t across = at::ceil_div(int64_t{g.width}, kTile);
  const int64_t slots = p.tiles() / across * at::round_up(across, lanes);
  const int64_t cost =
      at::round_up(int64_t{g.rows}, lanes / 2) * channels * (kPlanes * p.tiles() + kFilterCost) +
      (g.rows + channels) * slots * kTileCost;
  const int64_t direct = channels * g.rows * 9 * g.images * g.height * g.width;
  if (cost >= direct) return kOther;
  const bool by_rows = p.tiles() <= kTilesPerRow * g.rows && g.rows >= kLeastRowVectors * lanes &&
                       kPlanes * channels * p.tiles() <= kMostScratch;
  return by_rows ? kByRows : kByTiles;
}

Variant choose_variant(const Device& device, const Problem& p) {
  const Geometry& g = p.geometry;
  const uint64_t key = pack_sizes({g.images, g.rows, g.channels, g.height, g.width}) << 1 |
                       static_cast<uint64_t>(p.filters.flipped);
  return static_cast<Variant>(choose_tuned(
      device, tunable, key, kVariants, [](int64_t) { return true; },
      [&] { return faster_variant(device, p); }));
}

const Kernel& kernel_of(Device& device, const char* name, const Epilogue& epilogue = {}) {
  static Site site;
  const KernelKey key{&site, {reinterpret_cast<uint64_t>(name), epilogue.flags()}};
  return find_kernel(device, key, [&] {
    Defines defines;
    defines.set("VW", lanes_of(device)).set("MR", lanes_of(device) / 2);
    epilogue.define(defines);
    return KernelSource{"conv_winograd.cl", name, defines};
  });
}

// Sizes that the kernels compute in the same way (PLANE, BORDER).
struct Sizes {
  int64_t lanes, tasks, tiles, vectors;

  int64_t plane(int64_t lines) const { return lines * kBlockVectors * lanes + lanes; }
  int64_t border() const { return 4 * 3 * lanes; }
};

void run_by_tiles(const Problem& p, const ConvCall& t, const Sizes& sizes) {
  Device& device = t.device;
  Stream& stream = stream_of(t.result);
  const Geometry& g = p.geometry;
  const int64_t groups = at::ceil_div(int64_t{g.rows}, sizes.lanes);
  const int64_t u_plane = groups * sizes.lanes * g.channels + sizes.lanes;
  const at::Tensor u = conv_scratch(kPlanes * u_plane, t.result);
  const int64_t parts = std::min(at::ceil_div(sizes.tasks, groups), int64_t{g.channels});
  launch(stream, kernel_of(device, "winograd_filters"),
         {static_cast<size_t>(groups), static_cast<size_t>(parts)}, {}, view(u), view(t.factor),
         p.filters, u_plane);

  const int64_t rows = at::round_up(int64_t{g.rows}, sizes.lanes / 2);
  const int64_t task_size =
      sizes.border() + kPlanes * (sizes.plane(g.channels) + sizes.plane(rows));
  const int64_t tasks =
      std::min({sizes.tasks, sizes.vectors, std::max<int64_t>(kMostScratch / task_size, 1)});
  const at::Tensor scratch = conv_scratch(tasks * task_size, t.result);
  launch(stream, kernel_of(device, "winograd_tiles", t.epilogue), {static_cast<size_t>(tasks)}, {},
         view(t.result), view(scratch), view(t.source), view(u),
         view(t.bias.defined() ? t.bias : u), t.epilogue.residual_or(t.result),
         static_cast<int32_t>(t.bias.defined()), g, u_plane, static_cast<int32_t>(sizes.tiles));
}

void run_by_rows(const Problem& p, const ConvCall& t, const Sizes& sizes) {
  Device& device = t.device;
  Stream& stream = stream_of(t.result);
  const Geometry& g = p.geometry;
  const int64_t blocks = at::ceil_div(sizes.vectors, kBlockVectors);
  const int64_t parts = std::min(at::ceil_div(sizes.tasks, blocks), int64_t{g.channels});
  const at::Tensor v = conv_scratch(blocks * kPlanes * sizes.plane(g.channels), t.result);
  const at::Tensor scratch_of_inputs =
      conv_scratch(blocks * parts * (sizes.border() + kPlanes * sizes.plane(1)), t.result);
  launch(stream, kernel_of(device, "winograd_inputs"),
         {static_cast<size_t>(blocks), static_cast<size_t>(parts)}, {}, view(v),
         view(scratch_of_inputs), view(t.source), g, static_cast<int32_t>(sizes.tiles));

  const int64_t tasks = std::min(sizes.tasks, at::ceil_div(int64_t{g.rows}, sizes.lanes));
  const int64_t task_size =
      kPlanes * (sizes.lanes * g.channels + sizes.lanes + sizes.plane(sizes.lanes));
  const at::Tensor scratch = conv_scratch(tasks * task_size, t.result);
  launch(stream, kernel_of(device, "winograd_rows", t.epilogue), {static_cast<size_t>(tasks)}, {},
         view(t.result), view(scratch), view(v), view(t.factor),
         view(t.bias.defined() ? t.bias : t.factor), t.epilogue.residual_or(t.result),
         static_cast<int32_t>(t.bias.defined()), g, p.filters, static_cast<int32_t>(sizes.tiles));
}

const char* refusal(const ConvCall& call) {
  if (const char* reason = refusal_of_cpu_kernels(call)) return reason;
  if (call.result.numel() >= INT32_MAX) return "the result has 2^31 elements or more";
  if (const char* reason = refusal_of_shape(call.shape)) return reason;
  call.variant = choose_variant(call.device, problem_of(call));
  return call.variant == kOther ? "another algorithm is estimated or measured to be faster"
                                : nullptr;
}

void run(const ConvCall& call) {
  const Problem p = problem_of(call);
  Sizes sizes{lanes_of(call.device), static_cast<int64_t>(call.device.parameters().tasks),
              p.tiles(), 0};
  sizes.vectors = at::ceil_div(sizes.tiles, sizes.lanes);
  (call.variant == kByTiles ? run_by_tiles : run_by_rows)(p, call, sizes);
}

}  // namespace

const ConvAlgorithm kConvWinograd{"winograd", false, &refusal, &run};

}  // namespace ocl
