// Convolutions 3x3 of GPUs by Winograd's algorithm: launches of conv_winograd_gpu.cl.
#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>

#include "kernels/conv/common/winograd.h"
#include "kernels/conv/gpu/conv_gpu.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/matmul/gpu/gemm_gpu.h"

namespace ocl {
namespace {

constexpr int64_t kQuad = 4;  // the products load four tiles at once
// The most numbers in the filters, and in v and m together (v and g). If there are more tiles, they
// are computed in several rounds.
constexpr int64_t kMostScratch = int64_t{1} << 25;
constexpr size_t kShareOfMemory = 32;  // scratch takes at most 1/32 of the device's memory
constexpr int64_t kLeastTiles = 256;   // tiles of a round

// The algorithm pays if it saves enough products for the bytes that the transforms move. While a
// GPU moves a byte, its tiles compute 3 (H200) to 10 multiply-adds. kSavedPerByte comes from the
// GPU model: 512 channels of 7 x 7 save 6.3 and gain on all its devices; 64 channels of 56 x 56
// save 4.4 and gain on one. kLeastSaved covers the time of the additional launches.
constexpr int64_t kSavedPerByte = 6, kLeastSaved = int64_t{1} << 26;

bool is_faster(const WinogradProblem& p) {
  const WinogradProblem::Geometry& g = p.geometry;
  const int64_t filters = int64_t{g.rows} * g.channels, tiles = p.tiles();
  const int64_t results = int64_t{g.images} * g.height * g.width;
  const int64_t saved = filters * (9 * results - kWinogradPlanes * tiles);
  // The bytes moved: each plane is written and read; a tile's own pixels and a filter's taps are
  // read or written.
  const int64_t numbers = tiles * (2 * kWinogradPlanes + 4) * (g.rows + g.channels) +
                          filters * (2 * kWinogradPlanes + 9);
  return saved >= kLeastSaved && saved / 4 >= kSavedPerByte * numbers;
}

int64_t most_scratch(const Device& device, ScalarType compute) {
  const size_t share = device.properties().total_memory / kShareOfMemory;
  return std::min(kMostScratch, static_cast<int64_t>(share / c10::elementSize(compute)));
}

int64_t most_tiles(const WinogradProblem& p, const Device& device, ScalarType compute) {
  const int64_t of_tile = kWinogradPlanes * (p.geometry.rows + p.geometry.channels);
  return most_scratch(device, compute) / of_tile / kQuad * kQuad;
}

const char* refusal(const ConvCall& call) {
  if (const char* reason = refusal_of_gpu_kernels(call)) return reason;
  if (call.source.numel() == 0 || call.factor.numel() == 0) return "an operand is empty";
  if (const char* reason = refusal_of_winograd(call.shape)) return reason;
  const ScalarType compute = compute_type(call.result.scalar_type());
  if (!c10::isFloatingType(compute)) return "for floating-point types";
  if (!any_tile_fits(call.device, compute, TileUse::kProduct)) return kNoTile;
  const WinogradProblem problem = winograd_problem(call);
  const int64_t filters = kWinogradPlanes * problem.geometry.rows * problem.geometry.channels;
  if (filters > most_scratch(call.device, compute) ||
      most_tiles(problem, call.device, compute) < std::min(kLeastTiles, problem.tiles())) {
    return "the transforms would take too much memory";
  }
  return choose_conv_gpu(call, is_faster(problem)) == kConvGpuWinograd
             ? nullptr
             : "a tile is estimated or measured to be faster";
}

struct Transform {
  const char* name;
  ScalarType type;
  bool has_bias = false;
  EpilogueCode epilogue{};

  KernelSource source(Device&) const {
    Defines defines = element_defines(type);
    defines.set("HAS_BIAS", has_bias);
    epilogue.define(defines);
    return {"conv_winograd_gpu.cl", name, defines};
  }
};

class Launches {
 public:
  explicit Launches(const ConvCall& call) : call_(call), type_(call.result.scalar_type()) {}

  at::Tensor planes(int64_t rows, int64_t columns) const {
    return at::empty({kWinogradPlanes, rows, columns},
                     call_.result.options().dtype(compute_type(type_)).memory_format(std::nullopt));
  }

  template <typename... Values>
  void launch(const Transform& transform, int64_t columns, int64_t rows,
              std::initializer_list<at::Tensor> tensors, const Values&... values) const {
    const Kernel& kernel = find_kernel(call_.device, transform);
    const int64_t group = std::min<int64_t>(64, static_cast<int64_t>(kernel.group));
    Arguments arguments = bind_tensors(kernel, call_.result, tensors);
    (arguments.add(values), ...);
    arguments.enqueue(
        {static_cast<size_t>(at::round_up(columns, group)), static_cast<size_t>(rows)},
        {static_cast<size_t>(group)});
  }

 private:
  const ConvCall& call_;
  const ScalarType type_;
};

void run(const ConvCall& call) {
  const bool of_weight = call.direction == ConvDirection::kWeightGrad;
  const WinogradProblem p = winograd_problem(call);
  const WinogradProblem::Geometry& g = p.geometry;
  const Launches launches(call);
  const ScalarType type = call.result.scalar_type();
  const int64_t tiles = p.tiles();
  const int64_t rounds = at::ceil_div(tiles, most_tiles(p, call.device, compute_type(type)));
  const int64_t most = at::round_up(at::ceil_div(tiles, rounds), kQuad);
  // For the weight gradient: the gradients; else the filters.
  const at::Tensor left =
      of_weight ? launches.planes(g.rows, most) : launches.planes(g.rows, g.channels);
  const at::Tensor v = launches.planes(g.channels, most);
  const at::Tensor m = launches.planes(g.rows, of_weight ? g.channels : most);
  if (!of_weight) {
    launches.launch({"winograd_filters", type}, g.channels, g.rows, {left, call.factor}, p.filters);
  }
  for (int64_t first = 0; first < tiles; first += most) {
    const auto begin = static_cast<int32_t>(first), pitch = static_cast<int32_t>(most);
    const auto count = static_cast<int32_t>(std::min(most, tiles - first));
    launches.launch({"winograd_inputs", type}, pitch, g.channels, {v, call.source}, g, begin, count,
                    pitch);
    if (of_weight) {
      launches.launch({"winograd_grads", type}, pitch, g.rows, {left, call.factor}, g, begin, count,
                      pitch);
      gemm(m, left, v.mT(), 1, m, first == 0 ? 0 : 1);
    } else {
      gemm(m, left, v, 1, {}, 0);
      launches.launch({"winograd_results", type, call.bias.defined(), call.epilogue.code()}, count,
                      g.rows, {call.result, m, call.bias, call.epilogue.residual}, g, begin, count,
                      pitch);
    }
  }
  if (of_weight) {
    launches.launch({"winograd_weights", type}, g.channels, g.rows, {call.result, m}, g);
  }
  choose_conv_gpu(call, true);  // made last, because the tuner measures the last choice
}

}  // namespace

const ConvAlgorithm kConvWinogradGpu{"gpu_winograd", false, &refusal, &run};

}  // namespace ocl
