// Convolutions of GPUs: launches of conv_gpu.cl and conv_direct_gpu.cl.
#include "kernels/conv/gpu/conv_gpu.h"

#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>

#include <atomic>

#include "backend/tuning.h"
#include "kernels/conv/common/conv_pass.h"
#include "kernels/core/dtype.h"
#include "kernels/core/tensors.h"
#include "kernels/matmul/gpu/gemm_gpu.h"

namespace ocl {
namespace {

constexpr int64_t kMostBytes = INT32_MAX;  // of a tensor: indices of tiles go beyond its end
constexpr int32_t kLeastRows = 8;          // fewer leave most of a tile empty
constexpr int64_t kLeastWeights = 256;     // of a group
constexpr int32_t kMostMaskBits = 63;
constexpr int32_t kMostReadLines = 32, kMostDirectTaps = 64;  // registers and code of conv_direct

std::atomic<bool> switched_off{false};

bool applies(const at::Tensor& result, const at::Tensor& source, const at::Tensor& weight) {
  return !switched_off && ocl_device(result).family() == KernelFamily::kGpu &&
         std::max({result.nbytes(), source.nbytes(), weight.nbytes()}) <= size_t{kMostBytes};
}

int32_t mask_bits(const ConvPass& pass) {
  return pass.tap_count[0] + pass.tap_count[1] + pass.tap_count[2];
}

bool has_volume(const ConvPass& pass) {
  return pass.source[0] > 1 || pass.size[0] > 1 || pass.tap_count[0] > 1;
}

int32_t lines(const ConvPass& pass) { return std::min(pass.size[1], 4); }

int32_t read_lines(const ConvPass& pass) {
  return (lines(pass) - 1) * pass.step[1] + (pass.tap_count[1] - 1) * std::abs(pass.spacing[1]) + 1;
}

bool fits_direct(const ConvPass& pass) {
  return !has_volume(pass) && read_lines(pass) <= kMostReadLines &&
         pass.tap_count[1] * pass.tap_count[2] <= kMostDirectTaps;
}

bool fits_tiles(const ConvPass& pass) {
  return pass.rows >= kLeastRows && mask_bits(pass) <= kMostMaskBits;
}

// Binds the tensors. The caller adds the last argument, the struct.
Arguments bind(const Kernel& kernel, const at::Tensor& on, std::initializer_list<at::Tensor> all) {
  Arguments arguments(stream_of(on), kernel);
  for (const at::Tensor& tensor : all) {
    arguments.add(view(tensor.defined() && tensor.numel() ? tensor : on));
  }
  return arguments;
}

void run_direct(const ConvPass& pass, const at::Tensor& result, const at::Tensor& source,
                const at::Tensor& weight, const at::Tensor& bias) {
  Device& device = ocl_device(result);
  const auto byte = [](int32_t value) { return static_cast<uint64_t>(value & 0xFFFF); };
  static Site site;
  const KernelKey key{
      &site,
      {static_cast<uint64_t>(result.scalar_type()) << 1 | uint64_t{bias.defined()},
       byte(pass.tap_count[1]) << 32 | byte(pass.tap_count[2]) << 16 | byte(lines(pass)),
       byte(pass.step[1]) << 16 | byte(pass.spacing[1])}};
  const Kernel& kernel = find_kernel(device, key, [&] {
    Defines defines = element_defines(result.scalar_type());
    defines.set("LINES", lines(pass))
        .set("TAP_LINES", pass.tap_count[1])
        .set("TAP_COLUMNS", pass.tap_count[2])
        .set("STEP", pass.step[1])
        .set("SPACING", pass.spacing[1])
        .set("HAS_BIAS", bias.defined());
    return KernelSource{"conv_direct_gpu.cl", "conv_direct", defines};
  });
  const int64_t group = std::min<int64_t>(64, device.properties().max_work_group_size);
  bind(kernel, result, {result, source, weight, bias})
      .add(pass)
      .enqueue({static_cast<size_t>(at::round_up<int64_t>(pass.size[2], group)),
                static_cast<size_t>(at::ceil_div(pass.size[1], lines(pass))),
                static_cast<size_t>(pass.images) * pass.groups * pass.rows},
               {static_cast<size_t>(group)});
}

TileChoice choose_tile(const Device& device, const ConvPass& pass, ScalarType type,
                       bool of_weight) {
  const TileProblem problem{
      pass.m, pass.n, pass.k, pass.groups, compute_type(type), TileUse::kConvolution};
  const uint64_t key = pack_sizes({pass.m, pass.n, pass.k, pass.groups}) << 16 |
                       static_cast<uint64_t>(type) << 2 | uint64_t{of_weight};
  const int64_t index = choose_tuned(
      device, Tunable::kConvGpu, key, std::ssize(gemm_gpu_tiles()),
      [&](int64_t candidate) { return tile_fits(device, problem, candidate); },
      [&] { return model_tile(device, problem); });
  return with_parts(device, problem, index);
}

// The tensor for the sums: the result itself, or a temporary with a row for each part.
at::Tensor sums_of(const TileChoice& choice, const at::Tensor& result) {
  if (choice.parts == 1) return result;
  return at::empty(
      {choice.parts, result.numel()},
      result.options().dtype(compute_type(result.scalar_type())).memory_format(std::nullopt));
}

void enqueue_tiles(Arguments& arguments, ConvPass pass, const TileChoice& choice) {
  const GemmTile& tile = choice.tile();
  pass.parts = static_cast<int32_t>(choice.parts);
  pass.part_depth = static_cast<int32_t>(choice.depth(pass.k));
  arguments.add(pass).enqueue(
      {static_cast<size_t>(at::ceil_div<int64_t>(pass.n, tile.n) * tile.items()),
       static_cast<size_t>(at::ceil_div<int64_t>(pass.m, tile.m)),
       static_cast<size_t>(pass.groups * choice.parts)},
      {static_cast<size_t>(tile.items())});
}

Defines tile_defines(ScalarType type, const TileChoice& choice) {
  Defines defines = element_defines(type);
  set_tile(defines, choice.tile());
  defines.set("PARTS", choice.parts > 1);
  return defines;
}

// `whole`: the pass computes the whole result.
void run_tiles(const ConvPass& pass, const at::Tensor& result, const at::Tensor& source,
               const at::Tensor& weight, const at::Tensor& bias, const Epilogue& epilogue,
               bool whole) {
  Device& device = ocl_device(result);
  const ScalarType type = result.scalar_type();
  TileChoice choice = choose_tile(device, pass, type, false);
  if (!whole) choice.parts = 1;
  const bool parts = choice.parts > 1, long_mask = mask_bits(pass) > 31;
  const bool adds_bias = bias.defined() && !parts;
  const bool finishes = !parts && has_room_for(device, epilogue);
  const Epilogue own = finishes ? epilogue : Epilogue{};
  static Site site;
  const KernelKey key{&site,
                      {static_cast<uint64_t>(type), static_cast<uint64_t>(choice.index),
                       own.flags() << 4 | uint64_t{parts} << 3 | uint64_t{long_mask} << 2 |
                           uint64_t{adds_bias} << 1 | uint64_t{pass.in_order()}}};
  const Kernel& kernel = find_kernel(device, key, [&] {
    Defines defines = tile_defines(type, choice);
    defines.set("WEIGHT_TILES", 0)
        .set("MASK", long_mask ? "ulong" : "uint")
        .set("HAS_BIAS", adds_bias)
        .set("IN_ORDER", pass.in_order());
    own.define(defines);
    return KernelSource{"conv_gpu.cl", "conv_tiles", defines};
  });
  const at::Tensor sums = sums_of(choice, result);
  Arguments arguments = bind(kernel, result, {sums, source, weight, bias, own.residual});
  enqueue_tiles(arguments, pass, choice);
  if (finishes) return;
  if (!parts) return apply_epilogue(epilogue, result, result);
  const at::Tensor planes = result.view({pass.images, -1, pass.result_plane});
  const at::Tensor addend =
      bias.defined() ? bias.view({1, -1, 1}).expand(planes.sizes()) : at::Tensor();
  const at::Tensor& residual = epilogue.residual;
  gemm_sum_parts(planes, sums, 1, addend, 1,
                 {epilogue.activation, residual.defined() ? residual.view_as(planes) : residual});
}

bool run_passes(const std::vector<ConvPass>& passes, const at::Tensor& result,
                const at::Tensor& source, const at::Tensor& weight, const at::Tensor& bias,
                const Epilogue& epilogue = {}) {
  for (const ConvPass& pass : passes) {
    if (!fits_tiles(pass) && !fits_direct(pass)) return false;
  }
  for (const ConvPass& pass : passes) {
    if (fits_tiles(pass)) {
      run_tiles(pass, result, source, weight, bias, epilogue, passes.size() == 1);
    } else {
      run_direct(pass, result, source, weight, bias);
      apply_epilogue(epilogue, result, result);
    }
  }
  return true;
}

}  // namespace

bool conv_forward_gpu(const ConvShape& shape, const at::Tensor& output, const at::Tensor& input,
                      const at::Tensor& weight, const at::Tensor& bias, const Epilogue& epilogue) {
  if (!applies(output, input, weight)) return false;
  return run_passes({forward_pass(shape)}, output, input, weight, bias, epilogue);
}

bool conv_data_grad_gpu(const ConvShape& shape, const at::Tensor& input, const at::Tensor& output,
                        const at::Tensor& weight, const at::Tensor& bias) {
  if (!applies(input, output, weight)) return false;
  return run_passes(data_grad_passes(shape), input, output, weight, bias);
}

bool conv_weight_grad_gpu(const ConvShape& shape, const at::Tensor& weight, const at::Tensor& input,
                          const at::Tensor& output) {
  if (!applies(weight, input, output)) return false;
  const ConvPass pass = weight_grad_pass(shape);
  if (int64_t{pass.m} * pass.n < kLeastWeights) return false;
  Device& device = ocl_device(weight);
  const ScalarType type = weight.scalar_type();
  const TileChoice choice = choose_tile(device, pass, type, true);
  const bool parts = choice.parts > 1, volume = has_volume(pass);
  static Site site;
  const KernelKey key{&site,
                      {static_cast<uint64_t>(type), static_cast<uint64_t>(choice.index),
                       uint64_t{parts} << 1 | uint64_t{volume}}};
  const Kernel& kernel = find_kernel(device, key, [&] {
    Defines defines = tile_defines(type, choice);
    defines.set("WEIGHT_TILES", 1).set("VOLUME", volume).set("ACTIVATION", 0);
    return KernelSource{"conv_gpu.cl", "conv_weight_tiles", defines};
  });
  const at::Tensor sums = sums_of(choice, weight);
  Arguments arguments = bind(kernel, weight, {sums, input, output});
  enqueue_tiles(arguments, pass, choice);
  if (parts) {
    gemm_sum_parts(weight.view({1, 1, -1}), sums, 1, {}, 0, {});
  }
  return true;
}

void conv_gpu_switch_off(bool off) { switched_off = off; }

}  // namespace ocl
