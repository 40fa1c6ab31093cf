// Matrix products of GPUs: launches of gemm_gpu.cl, and the model of tiles.
#include "kernels/matmul/gpu/gemm_gpu.h"

#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>

#include "kernels/matmul/gemm_problem.h"

namespace ocl {
namespace {

// The rates are estimates from compilers' output; see docs/gpu_kernels.md.
constexpr GemmTile kTiles[] = {
    {128, 128, 8, 8, 8, 4, 1.0}, {128, 64, 8, 8, 8, 4, 0.95}, {64, 128, 8, 8, 8, 4, 0.95},
    {64, 64, 8, 8, 4, 4, 0.8},   {128, 32, 8, 8, 8, 4, 0.8},  {32, 128, 8, 8, 8, 4, 0.8},
    {32, 32, 8, 4, 4, 4, 0.55},  {16, 16, 8, 4, 4, 4, 0.2},
};

constexpr int64_t kBusyItems = 256;   // work-items that keep a compute unit busy
constexpr int64_t kLeastDepth = 256;  // the least depth of a part
constexpr int64_t kMostParts = 64;

bool fits(const Device& device, const GemmTile& tile, const TileProblem& problem) {
  const auto element = static_cast<int64_t>(c10::elementSize(problem.compute));
  const DeviceProperties& p = device.properties();
  const bool few_registers = device.has(Quirk::kFewRegisters),
             gathers = problem.use == TileUse::kConvolution,
             holds_more = gathers || problem.adds_by_element;
  const bool few_sums = tile.item_m * tile.item_n <= 32;
  const bool few_loads = std::max(tile.m, tile.n) * tile.k <= 8 * tile.items();
  return tile.items() <= static_cast<int64_t>(p.max_work_group_size) &&
         tile.local_bytes(element) <= static_cast<int64_t>(p.local_memory) &&
         (few_sums || (element < 8 && !(holds_more && few_registers))) &&
         // Convolutions keep an address in registers for each element that an item loads.
         (few_loads || !(gathers || few_registers));
}

int64_t groups_of(const TileShape& tile, const TileProblem& p) {
  return at::ceil_div(p.m, tile.m) * at::ceil_div(p.n, tile.n) * p.batches;
}

struct Quads {
  bool a, b;
};

Quads quads_of(const GemmProblem& p) {
  return {in_quads(p.a, p.a.transposed ? p.m : p.k, p.a.transposed ? p.k : p.m),
          in_quads(p.b, p.b.transposed ? p.k : p.n, p.b.transposed ? p.n : p.k)};
}

struct GemmTiles {
  GemmCode code;
  bool parts, adds_by_element;
  Quads quads;
  int64_t tile;  // or the next tile that fits into a group

  KernelSource source(Device& device, size_t group) const {
    const TileProblem any{1, 1, 1, 1, compute_type(code.type), TileUse::kProduct, adds_by_element};
    Defines defines = code.defines();
    defines.set("PARTS", parts).set("QUADS_A", quads.a).set("QUADS_B", quads.b);
    set_tile(defines, gemm_gpu_tiles()[tile_within(device, any, tile, group)]);
    return {"gemm_gpu.cl", "gemm", defines};
  }
};

struct GemmSum {
  ScalarType type;
  bool has_c;
  EpilogueCode epilogue;

  KernelSource source(Device&) const {
    Defines defines = element_defines(type);
    defines.set("HAS_C", has_c);
    epilogue.define(defines);
    return {"gemm_sum.cl", "gemm_sum", defines};
  }
};

}  // namespace

int64_t parts_of(const Device& device, const TileShape& tile, const TileProblem& p) {
  const int64_t wanted = device.properties().max_compute_units * kBusyItems / tile.items;
  const int64_t groups = groups_of(tile, p);
  const int64_t parts =
      std::clamp<int64_t>(std::min(wanted / groups, p.k / kLeastDepth), 1, kMostParts);
  return parts == 1 ? 1 : at::ceil_div(p.k, part_depth(p.k, parts, tile.k));  // without empty parts
}

// The multiply-adds of the compute unit with the most work-groups: its work per depth times the
// depth of a part. The overhead of a part counts as a depth of 32.
double estimated_time(const Device& device, const TileShape& tile, const TileProblem& p) {
  const int64_t units = device.properties().max_compute_units, parts = parts_of(device, tile, p);
  const int64_t most = at::ceil_div(groups_of(tile, p) * parts, units), sums = tile.m * tile.n;
  const double busy = static_cast<double>(most * sums) / kBusyItems;
  const double of_item = std::max(busy, static_cast<double>(sums) / tile.items) / tile.rate;
  return of_item * (static_cast<double>(at::round_up(at::ceil_div(p.k, parts), tile.k)) + 32);
}

TileProblem tile_problem(const GemmProblem& p) {
  const Quads quads = quads_of(p);
  const bool adds = p.has_c || p.epilogue.residual.defined();
  return {p.m, p.n, p.k, p.batches, p.compute, TileUse::kProduct, adds && !(quads.a && quads.b)};
}

void launch_tiles(const GemmProblem& p, const Kernel& kernel, const TileShape& tile, int64_t parts,
                  double work) {
  at::Tensor partial;
  if (parts > 1) {
    partial = at::empty({parts, p.batches, p.m, p.n},
                        p.out.options().dtype(p.compute).memory_format(std::nullopt));
  }
  Arguments arguments(p.stream, kernel);
  if (parts > 1) {
    arguments.add(view(partial)).add(view(p.a.tensor)).add(view(p.b.tensor));
    arguments.add(view(partial)).add(view(partial));
  } else {
    add_gemm_tensors(arguments, p, p.a.tensor, p.b.tensor);
  }
  add_gemm_sizes(arguments, p, gemm_sizes(p));
  arguments.add(static_cast<int32_t>(parts))
      .add(static_cast<int32_t>(part_depth(p.k, parts, tile.k)))
      .add(p.batches)
      .enqueue(
          {static_cast<size_t>(at::ceil_div(p.n, tile.n) * tile.items),
           static_cast<size_t>(at::ceil_div(p.m, tile.m)), static_cast<size_t>(p.batches * parts)},
          {static_cast<size_t>(tile.items)}, work);
  if (parts == 1) return;
  const auto as_batch = [](const at::Tensor& t) {
    return t.defined() && t.dim() == 2 ? t.unsqueeze(0) : t;
  };
  gemm_sum_parts(as_batch(p.out), partial, p.alpha, p.has_c ? as_batch(p.c) : at::Tensor(), p.beta,
                 {p.epilogue.activation, as_batch(p.epilogue.residual)});
}

void run_gpu_tile(const GemmProblem& p, int64_t index) {
  const TileProblem problem = tile_problem(p);
  const int64_t parts = with_parts(p.device, problem, index).parts;
  const Kernel& kernel = find_kernel(
      p.device, GemmTiles{gemm_code(p), parts > 1, problem.adds_by_element, quads_of(p), index});
  const GemmTile& tile = kTiles[tile_within(p.device, problem, index, kernel.group)];
  launch_tiles(p, kernel, tile.shape(), parts, problem.work(tile));
}

bool in_vectors(const GemmOperand& operand, int64_t row, int64_t rows, int64_t width) {
  const auto bytes = width * static_cast<int64_t>(operand.tensor.element_size());
  return row % width == 0 && (operand.ld % width == 0 || rows == 1) && operand.batch % width == 0 &&
         operand.tensor.numel() > 0 &&
         static_cast<int64_t>(view(operand.tensor).offset) % bytes == 0;
}

bool has_room_for(const Device& device, const Epilogue& epilogue) {
  return !is_costly(epilogue.activation) || !device.has(Quirk::kFewRegisters);
}

std::span<const GemmTile> gemm_gpu_tiles() { return kTiles; }

bool tile_fits(const Device& device, const TileProblem& problem, int64_t index) {
  return fits(device, kTiles[index], problem);
}

bool any_tile_fits(const Device& device, ScalarType compute, TileUse use) {
  const TileProblem problem{1, 1, 1, 1, compute, use};
  return std::ranges::any_of(kTiles,
                             [&](const GemmTile& tile) { return fits(device, tile, problem); });
}

int64_t tile_within(const Device& device, const TileProblem& problem, int64_t index, size_t group) {
  const GemmTile& wanted = kTiles[index];
  const int64_t sums = wanted.item_m * wanted.item_n;
  for (int64_t i = index; i < std::ssize(kTiles); ++i) {
    const GemmTile& tile = kTiles[i];
    if (tile.items() > static_cast<int64_t>(group)) continue;
    if (i == index || (tile.item_m * tile.item_n <= sums && tile_fits(device, problem, i)))
      return i;
  }
  TORCH_CHECK(false, "matrix products and convolutions: a work-group of their kernel may have ",
              group, " work-items on ", device.label(), ", but the smallest tile has ",
              kTiles[std::ssize(kTiles) - 1].items(),
              ". Please report the device; OCL_KERNEL_FAMILY=cpu runs kernels without groups");
}

TileChoice with_parts(const Device& device, const TileProblem& p, int64_t index) {
  return {index, parts_of(device, kTiles[index].shape(), p)};
}

int64_t model_tile(const Device& device, const TileProblem& p) {
  int64_t best = std::ssize(kTiles) - 1;
  double least = -1;
  for (int64_t index = 0; index < std::ssize(kTiles); ++index) {
    if (!tile_fits(device, p, index)) continue;
    const double time = estimated_time(device, kTiles[index].shape(), p);
    if (least < 0 || time < least) {
      least = time;
      best = index;
    }
  }
  return best;
}

void set_tile(Defines& defines, const GemmTile& tile) {
  defines.set("TM", tile.m)
      .set("TN", tile.n)
      .set("TK", tile.k)
      .set("WM", tile.item_m)
      .set("WN", tile.item_n)
      .set("UNROLL", tile.unroll);
}

void gemm_sum_parts(const at::Tensor& out, const at::Tensor& partial, const c10::Scalar& alpha,
                    const at::Tensor& c, const c10::Scalar& beta, const Epilogue& epilogue) {
  Device& device = ocl_device(out);
  const ScalarType type = out.scalar_type(), compute = compute_type(type);
  const bool has_c = c.defined();
  const Kernel& kernel = find_kernel(device, GemmSum{type, has_c, epilogue.code()});
  GemmSizes sizes{};
  sizes.n = static_cast<int32_t>(out.size(2));
  sizes.ld_out = out.stride(1), sizes.out_batch = out.stride(0);
  if (has_c) {
    sizes.c_row = c.stride(1), sizes.c_column = c.stride(2), sizes.c_batch = c.stride(0);
  }
  sizes.residual_row = epilogue.residual_stride(1);
  sizes.residual_column = epilogue.residual_stride(2);
  sizes.residual_batch = epilogue.residual_stride(0);
  Arguments arguments(stream_of(out), kernel);
  arguments.add(view(out)).add(view(partial)).add(view(has_c ? c : out));
  arguments.add(epilogue.residual_or(out)).add(sizes);
  add_number(arguments, alpha, compute);
  add_number(arguments, beta, compute);
  arguments.add(static_cast<int32_t>(partial.size(0))).add(out.size(1)).add(out.size(0));
  const int64_t group = std::min<int64_t>(64, static_cast<int64_t>(kernel.group));
  arguments.enqueue({static_cast<size_t>(at::round_up(out.size(2), group)),
                     static_cast<size_t>(out.size(1)), static_cast<size_t>(out.size(0))},
                    {static_cast<size_t>(group)});
}

}  // namespace ocl
