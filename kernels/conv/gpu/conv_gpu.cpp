// Convolutions of GPUs by tiles of matrix products: launches of conv_gpu.cl.
#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>

#include "backend/program/tuning.h"
#include "kernels/conv/common/winograd.h"
#include "kernels/conv/gpu/conv_gpu.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/matmul/gpu/gemm_gpu.h"

namespace ocl {

const int64_t kConvGpuWinograd = std::ssize(gemm_gpu_tiles());

namespace {

std::string name_of_candidate(int64_t candidate) {
  if (candidate > kConvGpuWinograd) return "";
  return candidate == kConvGpuWinograd ? "winograd" : gemm_gpu_tiles()[candidate].name();
}
Tunable tunable("conv_gpu", &name_of_candidate);

constexpr int32_t kLeastRows = 8;       // with fewer rows, most of a tile is empty
constexpr int64_t kLeastWeights = 256;  // weights of a group
constexpr int32_t kMostMaskBits = 63;

int32_t mask_bits(const ConvPass& pass) {
  return pass.tap_count[0] + pass.tap_count[1] + pass.tap_count[2];
}

bool fits_tiles(const ConvPass& pass) {
  return pass.rows >= kLeastRows && mask_bits(pass) <= kMostMaskBits;
}

TileProblem tile_problem(const ConvPass& pass, ScalarType type) {
  return {pass.m, pass.n, pass.k, pass.groups, compute_type(type), TileUse::kConvolution};
}

// Chooses among tiles and Winograd's algorithm. `winograd`: whether Winograd's algorithm can
// compute the call; `faster`: whether it is estimated to be faster.
int64_t choose(const ConvCall& call, const ConvPass& pass, bool winograd, bool faster) {
  const Device& device = call.device;
  const ScalarType type = call.result.scalar_type();
  const TileProblem problem = tile_problem(pass, type);
  const bool of_weight = call.direction == ConvDirection::kWeightGrad;
  const uint64_t key =
      pack_sizes({pass.m, pass.n, pass.k, pass.groups}) << 16 | static_cast<uint64_t>(type) << 2 |
      uint64_t{refusal_of_winograd(call.shape) == nullptr} << 1 | uint64_t{of_weight};
  return choose_tuned(
      device, tunable, key,
      [&](int64_t candidate) {
        return candidate == kConvGpuWinograd ? winograd : tile_fits(device, problem, candidate);
      },
      [&] { return faster ? kConvGpuWinograd : model_tile(device, problem); });
}

TileChoice choose_tile(const ConvCall& call, const ConvPass& pass) {
  return with_parts(call.device, tile_problem(pass, call.result.scalar_type()),
                    choose(call, pass, false, false));
}

// The tensor for the sums: the result itself, or a temporary with a row for each part.
at::Tensor sums_of(const TileChoice& choice, const at::Tensor& result) {
  if (choice.parts == 1) return result;
  return at::empty(
      {choice.parts, result.numel()},
      result.options().dtype(compute_type(result.scalar_type())).memory_format(std::nullopt));
}

void enqueue_tiles(Arguments& arguments, ConvPass pass, ScalarType type, const TileChoice& choice) {
  const GemmTile& tile = choice.tile();
  pass.parts = static_cast<int32_t>(choice.parts);
  pass.part_depth = static_cast<int32_t>(choice.depth(pass.k));
  arguments.add(pass).enqueue(
      {static_cast<size_t>(at::ceil_div<int64_t>(pass.n, tile.n) * tile.items()),
       static_cast<size_t>(at::ceil_div<int64_t>(pass.m, tile.m)),
       static_cast<size_t>(pass.groups * choice.parts)},
      {static_cast<size_t>(tile.items())}, tile_problem(pass, type).work(tile));
}

// The parameters that the sources of both kernels have.
struct Tiled {
  ScalarType type;
  bool parts;
  int64_t index;  // index of the tile

  // Uses another tile if the device's groups are too small for the chosen one.
  int64_t within(const Device& device, size_t group) const {
    return tile_within(device, tile_problem({}, type), index, group);
  }
  Defines defines(const Device& device, size_t group) const {
    Defines defines = element_defines(type);
    set_tile(defines, gemm_gpu_tiles()[within(device, group)]);
    return defines.set("PARTS", parts);
  }
};

struct ConvTiles {
  Tiled tiled;
  bool long_mask, has_bias, in_order;
  EpilogueCode epilogue;

  KernelSource source(Device& device, size_t group) const {
    Defines defines = tiled.defines(device, group);
    defines.set("WEIGHT_TILES", 0)
        .set("MASK", long_mask ? "ulong" : "uint")
        .set("HAS_BIAS", has_bias)
        .set("IN_ORDER", in_order);
    epilogue.define(defines);
    return {"conv_gpu.cl", "conv_tiles", defines};
  }
};

struct ConvWeightTiles {
  Tiled tiled;
  bool volume;

  KernelSource source(Device& device, size_t group) const {
    Defines defines = tiled.defines(device, group);
    defines.set("WEIGHT_TILES", 1).set("VOLUME", volume);
    return {"conv_gpu.cl", "conv_weight_tiles", defines};
  }
};

// `whole`: the pass computes the whole result.
void run_tiles(const ConvPass& pass, const ConvCall& call, bool whole) {
  const at::Tensor &result = call.result, &bias = call.bias;
  const Epilogue& epilogue = call.epilogue;
  Device& device = call.device;
  const ScalarType type = result.scalar_type();
  TileChoice choice = choose_tile(call, pass);
  if (!whole) choice.parts = 1;
  const bool parts = choice.parts > 1, long_mask = mask_bits(pass) > 31;
  const bool adds_bias = bias.defined() && !parts;
  const bool finishes = !parts && has_room_for(device, epilogue);
  const Epilogue own = finishes ? epilogue : Epilogue{};
  const Tiled tiled{type, parts, choice.index};
  const Kernel& kernel =
      find_kernel(device, ConvTiles{tiled, long_mask, adds_bias, pass.in_order(), own.code()});
  choice.index = tiled.within(device, kernel.group);
  const at::Tensor sums = sums_of(choice, result);
  Arguments arguments =
      bind_tensors(kernel, result, {sums, call.source, call.factor, bias, own.residual});
  enqueue_tiles(arguments, pass, type, choice);
  if (finishes) return;
  if (!parts) return apply_epilogue(epilogue, result, result);
  const at::Tensor planes = result.view({pass.images, -1, pass.result_plane});
  const at::Tensor addend =
      bias.defined() ? bias.view({1, -1, 1}).expand(planes.sizes()) : at::Tensor();
  const at::Tensor& residual = epilogue.residual;
  gemm_sum_parts(planes, sums, 1, addend, 1,
                 {epilogue.activation, residual.defined() ? residual.view_as(planes) : residual});
}

void run_weight_grad(const ConvCall& call) {
  const at::Tensor& weight = call.result;
  Device& device = call.device;
  const ConvPass pass = weight_grad_pass(call.shape);
  const ScalarType type = weight.scalar_type();
  TileChoice choice = choose_tile(call, pass);
  const bool parts = choice.parts > 1, volume = has_volume(pass);
  const Tiled tiled{type, parts, choice.index};
  const Kernel& kernel = find_kernel(device, ConvWeightTiles{tiled, volume});
  choice.index = tiled.within(device, kernel.group);
  const at::Tensor sums = sums_of(choice, weight);
  Arguments arguments = bind_tensors(kernel, weight, {sums, call.source, call.factor});
  enqueue_tiles(arguments, pass, type, choice);
  if (parts) gemm_sum_parts(weight.view({1, 1, -1}), sums, 1, {}, 0, {});
}

// A pass of a data gradient that has too many taps for tiles uses the direct kernel.
const char* refusal(const ConvCall& call) {
  if (const char* reason = refusal_of_gpu_kernels(call)) return reason;
  const ScalarType compute = compute_type(call.result.scalar_type());
  if (!any_tile_fits(call.device, compute, TileUse::kConvolution)) return kNoTile;
  const ConvShape& s = call.shape;
  if (call.direction == ConvDirection::kWeightGrad) {
    return s.out_channels * s.taps() < kLeastWeights ? "fewer than 256 weights of a group"
                                                     : nullptr;
  }
  const auto& passes = call.passes();
  if (passes.front().rows < kLeastRows) return "few channels of the result";
  if (std::ranges::none_of(passes, fits_tiles)) return "too many taps";
  const auto fits = [](const ConvPass& pass) { return fits_tiles(pass) || fits_direct(pass); };
  return std::ranges::all_of(passes, fits) ? nullptr : "too many taps";
}

void run(const ConvCall& call) {
  if (call.direction == ConvDirection::kWeightGrad) return run_weight_grad(call);
  const auto& passes = call.passes();
  fill_without_taps(call);
  for (const ConvPass& pass : passes) {
    if (!is_launched(pass, call)) continue;
    if (fits_tiles(pass)) {
      run_tiles(pass, call, passes.size() == 1);
    } else {
      run_direct(pass, call);
    }
  }
}

}  // namespace

int64_t choose_conv_gpu(const ConvCall& call, bool faster) {
  const bool of_weight = call.direction == ConvDirection::kWeightGrad;
  return choose(call, of_weight ? weight_grad_pass(call.shape) : call.passes().front(), true,
                faster);
}

const ConvAlgorithm kConvTiles{"tiles", false, &refusal, &run};

}  // namespace ocl
