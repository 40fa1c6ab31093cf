// Convolutions 3x3 of CPU devices by Winograd's algorithm: launches of conv_winograd.cl.
#include <ATen/ceil_div.h>

#include "kernels/conv/cpu/conv_plans.h"
#include "kernels/conv/cpu/winograd_order.h"
#include "kernels/core/types/dtype.h"

namespace ocl {
namespace {

constexpr int64_t kBlockVectors = 3;

// The lanes of the hardware's vectors. With wider ones, as conv_lanes() gives, the transpose of VW
// vectors would not fit into 16 registers.
int64_t lanes_of(const Device& device) {
  return std::clamp<int64_t>(device.properties().native_vector_width_float, 4, 16);
}

struct Winograd {
  const char* name;
  EpilogueCode epilogue{};

  KernelSource source(Device& device) const {
    Defines defines;
    defines.set("VW", lanes_of(device)).set("MR", lanes_of(device) / 2);
    epilogue.define(defines);
    return {"conv_winograd.cl", name, defines};
  }
};

// Sizes that the kernels compute in the same way (PLANE, BORDER).
struct Sizes {
  int64_t lanes, tasks, tiles, vectors;

  int64_t plane(int64_t lines) const { return lines * kBlockVectors * lanes + lanes; }
  int64_t border() const { return 4 * 3 * lanes; }
};

void run_by_tiles(const WinogradProblem& p, const ConvCall& t, const Sizes& sizes) {
  Device& device = t.device;
  Stream& stream = stream_of(t.result);
  const WinogradProblem::Geometry& g = p.geometry;
  const int64_t groups = at::ceil_div(int64_t{g.rows}, sizes.lanes);
  const int64_t u_plane = groups * sizes.lanes * g.channels + sizes.lanes;
  const at::Tensor u = conv_scratch(kWinogradPlanes * u_plane, t.result);
  const int64_t parts = std::min(at::ceil_div(sizes.tasks, groups), int64_t{g.channels});
  launch(stream, find_kernel(device, Winograd{"winograd_filters"}),
         {static_cast<size_t>(groups), static_cast<size_t>(parts)}, {}, view(u), view(t.factor),
         p.filters, u_plane);

  const int64_t rows = at::round_up(int64_t{g.rows}, sizes.lanes / 2);
  const int64_t task_size =
      sizes.border() + kWinogradPlanes * (sizes.plane(g.channels) + sizes.plane(rows));
  const int64_t tasks = winograd_tasks(device, sizes.vectors, task_size);
  const at::Tensor scratch = conv_scratch(tasks * task_size, t.result);
  launch(stream, find_kernel(device, Winograd{"winograd_tiles", t.epilogue.code()}),
         {static_cast<size_t>(tasks)}, {}, view(t.result), view(scratch), view(t.source), view(u),
         view(t.bias.defined() ? t.bias : u), t.epilogue.residual_or(t.result),
         static_cast<int32_t>(t.bias.defined()), g, u_plane, static_cast<int32_t>(sizes.tiles));
}

void run_by_rows(const WinogradProblem& p, const ConvCall& t, const Sizes& sizes) {
  Device& device = t.device;
  Stream& stream = stream_of(t.result);
  const WinogradProblem::Geometry& g = p.geometry;
  const int64_t blocks = at::ceil_div(sizes.vectors, kBlockVectors);
  const int64_t parts = std::min(at::ceil_div(sizes.tasks, blocks), int64_t{g.channels});
  const at::Tensor v = conv_scratch(blocks * kWinogradPlanes * sizes.plane(g.channels), t.result);
  const at::Tensor scratch_of_inputs =
      conv_scratch(blocks * parts * (sizes.border() + kWinogradPlanes * sizes.plane(1)), t.result);
  launch(stream, find_kernel(device, Winograd{"winograd_inputs"}),
         {static_cast<size_t>(blocks), static_cast<size_t>(parts)}, {}, view(v),
         view(scratch_of_inputs), view(t.source), g, static_cast<int32_t>(sizes.tiles));

  const int64_t tasks = std::min(sizes.tasks, at::ceil_div(int64_t{g.rows}, sizes.lanes));
  const int64_t task_size =
      kWinogradPlanes * (sizes.lanes * g.channels + sizes.lanes + sizes.plane(sizes.lanes));
  const at::Tensor scratch = conv_scratch(tasks * task_size, t.result);
  launch(stream, find_kernel(device, Winograd{"winograd_rows", t.epilogue.code()}),
         {static_cast<size_t>(tasks)}, {}, view(t.result), view(scratch), view(v), view(t.factor),
         view(t.bias.defined() ? t.bias : t.factor), t.epilogue.residual_or(t.result),
         static_cast<int32_t>(t.bias.defined()), g, p.filters, static_cast<int32_t>(sizes.tiles));
}

const char* refusal(const ConvCall& call) {
  if (const char* reason = refusal_of_cpu_kernels(call)) return reason;
  if (call.result.numel() >= INT32_MAX) return "the result has 2^31 elements or more";
  if (const char* reason = refusal_of_winograd(call.shape)) return reason;
  const WinogradProblem p = winograd_problem(call);
  const int64_t lanes = lanes_of(call.device),
                across = at::ceil_div(int64_t{p.geometry.width}, kWinogradTile);
  call.variant =
      choose_winograd_order(call, p, lanes, p.tiles() / across * at::round_up(across, lanes),
                            at::round_up(int64_t{p.geometry.rows}, lanes / 2));
  return call.variant == kOther ? "another algorithm is estimated or measured to be faster"
                                : nullptr;
}

void run(const ConvCall& call) {
  const WinogradProblem p = winograd_problem(call);
  Sizes sizes{lanes_of(call.device), static_cast<int64_t>(call.device.parameters().tasks),
              p.tiles(), 0};
  sizes.vectors = at::ceil_div(sizes.tiles, sizes.lanes);
  (call.variant == kByTiles ? run_by_tiles : run_by_rows)(p, call, sizes);
}

}  // namespace

const ConvAlgorithm kConvWinograd{"winograd", false, &refusal, &run};

}  // namespace ocl
