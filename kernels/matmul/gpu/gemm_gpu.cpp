// Matrix products of GPUs: launches of gemm_gpu.cl, or of CLBlast.
#include "kernels/matmul/gpu/gemm_gpu.h"

#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>

#include "kernels/matmul/clblast.h"
#include "kernels/matmul/gemm_problem.h"

namespace ocl {

Tunable gemm_gpu_tiles_or_clblast("gemm_gpu");

namespace {

// Each rate is estimated from compilers' output; see docs/gpu_kernels.md.
constexpr GemmTile kTiles[] = {
    {128, 128, 8, 8, 8, 4, 1.0}, {128, 64, 8, 8, 8, 4, 0.95}, {64, 128, 8, 8, 8, 4, 0.95},
    {64, 64, 8, 8, 4, 4, 0.8},   {128, 32, 8, 8, 8, 4, 0.8},  {32, 128, 8, 8, 8, 4, 0.8},
    {32, 32, 8, 4, 4, 4, 0.55},  {16, 16, 8, 4, 4, 4, 0.2},
};

constexpr int64_t kBusyItems = 256;   // work-items that keep a compute unit busy
constexpr int64_t kLeastDepth = 256;  // of a part
constexpr int64_t kMostParts = 64;
constexpr size_t kBlasGroup = 64;  // work-items of the smallest groups of CLBlast

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

int64_t groups_of(const GemmTile& tile, int64_t m, int64_t n, int64_t batches) {
  return at::ceil_div(m, tile.m) * at::ceil_div(n, tile.n) * batches;
}

int64_t parts_for(const Device& device, const GemmTile& tile, int64_t groups, int64_t k) {
  const int64_t wanted = device.properties().max_compute_units * kBusyItems / tile.items();
  return std::clamp<int64_t>(std::min(wanted / groups, k / kLeastDepth), 1, kMostParts);
}

// The estimated time of a choice, in multiply-adds of a work-item: those of the unit that has the
// most work-groups, if it is busy, times the depth of a part. 32 is the overhead of a part, as
// depth.
double cost(const Device& device, const GemmTile& tile, int64_t groups, int64_t k, int64_t parts) {
  const int64_t units = device.properties().max_compute_units;
  const int64_t most = at::ceil_div(groups * parts, units);
  const double busy = static_cast<double>(most * tile.m * tile.n) / kBusyItems;
  const double sums = std::max(busy, static_cast<double>(tile.item_m * tile.item_n)) / tile.rate;
  return sums * (static_cast<double>(at::ceil_div(k, parts)) + 32);
}

BlasMatrix blas_matrix(const GemmOperand& operand) {
  return {view(operand.tensor), operand.transposed, operand.ld, operand.batch};
}

// Large products go to CLBlast, whose database has tuned parameters for many GPUs. It would pad
// small and narrow ones to its tiles, which our kernels do not.
bool is_large(const GemmProblem& p) { return std::min({p.m, p.n, p.k}) >= 128; }

BlasProduct blas_product(const GemmProblem& p) {
  return {p.type,
          p.m,
          p.n,
          p.k,
          p.batches,
          blas_matrix(p.a),
          blas_matrix(p.b),
          {view(p.out), false, p.out.stride(-2), batch_stride(p.out)},
          p.alpha,
          p.has_c ? p.beta : c10::Scalar(0)};
}

const char* refusal_by_blas(const GemmProblem& p) {
  if (p.k == 0) return "nothing to add";
  if (p.device.properties().max_work_group_size < kBlasGroup) return "its groups are too large";
  if (!clblast_has(p.type)) return "it is not installed, or lacks the type";
  if (p.stream.capture()) return "its launches cannot be captured";
  return clblast_accepts(blas_product(p)) ? nullptr : "strides that it does not support";
}

void run_without_clblast(const GemmProblem& p) {
  p.tile = -1;
  const GemmAlgorithm& own = kGemmGpu.refusal(p) ? kGemmPlain : kGemmGpu;
  own.run(p);
}

void run_clblast(const GemmProblem& p) {
  // CLBlast adds beta times the old contents of `out`.
  if (p.has_c && !(p.c.is_alias_of(p.out) && p.c.const_data_ptr() == p.out.const_data_ptr() &&
                   p.c.strides() == p.out.strides())) {
    p.out.copy_(p.c);
  }
  if (!clblast_gemm(p.stream, blas_product(p))) return run_without_clblast(p);
  apply_epilogue(p.epilogue, p.out, p.out);
}

struct Quads {
  bool a, b;
};

Quads quads_of(const GemmProblem& p) {
  return {in_quads(p.a, p.a.transposed ? p.m : p.k, p.a.transposed ? p.k : p.m),
          in_quads(p.b, p.b.transposed ? p.k : p.n, p.b.transposed ? p.n : p.k)};
}

TileProblem tile_problem(const GemmProblem& p) {
  const Quads quads = quads_of(p);
  const bool adds = p.has_c || p.epilogue.residual.defined();
  return {p.m, p.n, p.k, p.batches, p.compute, TileUse::kProduct, adds && !(quads.a && quads.b)};
}

void run_tiles(const GemmProblem& p, int64_t index) {
  const TileProblem problem = tile_problem(p);
  TileChoice choice = with_parts(p.device, problem, index);
  const bool parts = choice.parts > 1;
  const Quads quads = quads_of(p);
  at::Tensor partial;
  if (parts) {
    partial = at::empty({choice.parts, p.batches, p.m, p.n},
                        p.out.options().dtype(p.compute).memory_format(std::nullopt));
  }
  static Site site;
  const KernelKey key{&site,
                      {static_cast<uint64_t>(p.type), gemm_flags(p, p.a.transposed, p.b.transposed),
                       static_cast<uint64_t>(choice.index) << 3 | uint64_t{parts} << 2 |
                           uint64_t{quads.a} << 1 | uint64_t{quads.b}}};
  const Kernel& kernel = find_kernel(p.device, key, [&](size_t group) {
    Defines defines = gemm_defines(p, p.a.transposed, p.b.transposed);
    defines.set("PARTS", parts).set("QUADS_A", quads.a).set("QUADS_B", quads.b);
    set_tile(defines, gemm_gpu_tiles()[tile_within(p.device, problem, choice.index, group)]);
    return KernelSource{"gemm_gpu.cl", "gemm", defines};
  });
  choice.index = tile_within(p.device, problem, choice.index, kernel.group);
  const GemmTile& tile = choice.tile();
  Arguments arguments(p.stream, kernel);
  if (parts) {
    arguments.add(view(partial)).add(view(p.a.tensor)).add(view(p.b.tensor));
    arguments.add(view(partial)).add(view(partial));
  } else {
    add_gemm_tensors(arguments, p, p.a.tensor, p.b.tensor);
  }
  add_gemm_sizes(arguments, p, gemm_sizes(p));
  arguments.add(static_cast<int32_t>(choice.parts))
      .add(static_cast<int32_t>(choice.depth(p.k)))
      .add(p.batches)
      .enqueue({static_cast<size_t>(at::ceil_div(p.n, tile.n) * tile.items()),
                static_cast<size_t>(at::ceil_div(p.m, tile.m)),
                static_cast<size_t>(p.batches * choice.parts)},
               {static_cast<size_t>(tile.items())}, problem.work(tile));
  if (!parts) return;
  const auto as_batch = [](const at::Tensor& t) {
    return t.defined() && t.dim() == 2 ? t.unsqueeze(0) : t;
  };
  gemm_sum_parts(as_batch(p.out), partial, p.alpha, p.has_c ? as_batch(p.c) : at::Tensor(), p.beta,
                 {p.epilogue.activation, as_batch(p.epilogue.residual)});
}

}  // namespace

bool in_quads(const GemmOperand& operand, int64_t row, int64_t rows) {
  const auto bytes = 4 * static_cast<int64_t>(operand.tensor.element_size());
  return row % 4 == 0 && (operand.ld % 4 == 0 || rows == 1) && operand.batch % 4 == 0 &&
         operand.tensor.numel() > 0 &&
         static_cast<int64_t>(view(operand.tensor).offset) % bytes == 0;
}

bool has_room_for(const Device& device, const Epilogue& epilogue) {
  return !is_costly(epilogue.activation) || !device.has(Quirk::kFewRegisters);
}

std::span<const GemmTile> gemm_gpu_tiles() { return kTiles; }

int64_t TileChoice::depth(int64_t k) const {
  return parts == 1 ? k : at::round_up(at::ceil_div(k, parts), tile().k);
}

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
  const GemmTile& tile = kTiles[index];
  TileChoice choice{index, parts_for(device, tile, groups_of(tile, p.m, p.n, p.batches), p.k)};
  if (choice.parts > 1) choice.parts = at::ceil_div(p.k, choice.depth(p.k));  // none is empty
  return choice;
}

int64_t model_tile(const Device& device, const TileProblem& p) {
  int64_t best = std::ssize(kTiles) - 1;
  double least = -1;
  for (int64_t index = 0; index < std::ssize(kTiles); ++index) {
    if (!tile_fits(device, p, index)) continue;
    const GemmTile& tile = kTiles[index];
    const int64_t parts = with_parts(device, p, index).parts;
    const double time = cost(device, tile, groups_of(tile, p.m, p.n, p.batches), p.k, parts);
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
  static Site site;
  const KernelKey key{&site, {static_cast<uint64_t>(type), uint64_t{has_c}, epilogue.flags()}};
  const Kernel& kernel = find_kernel(device, key, [&] {
    Defines defines = element_defines(type);
    defines.set("HAS_C", has_c);
    epilogue.define(defines);
    return KernelSource{"gemm_sum.cl", "gemm_sum", defines};
  });
  const GemmSizes sizes{
      .ld_out = out.stride(1),
      .c_row = has_c ? c.stride(1) : 0,
      .c_column = has_c ? c.stride(2) : 0,
      .residual_row = epilogue.residual_stride(1),
      .residual_column = epilogue.residual_stride(2),
      .c_batch = has_c ? c.stride(0) : 0,
      .residual_batch = epilogue.residual_stride(0),
      .out_batch = out.stride(0),
      .n = static_cast<int32_t>(out.size(2)),
  };
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

namespace {

// The candidate after the tiles is CLBlast.
constexpr int64_t kClblast = std::ssize(kTiles);

int64_t choose(const GemmProblem& p, bool has_blas) {
  const TileProblem problem = tile_problem(p);
  return choose_tuned(
      p.device, gemm_gpu_tiles_or_clblast, gemm_problem_key(p), kClblast + 1,
      [&](int64_t index) {
        return index == kClblast ? has_blas : tile_fits(p.device, problem, index);
      },
      [&] {
        const bool blas = has_blas && is_large(p) && !p.device.has(Quirk::kSlowClblast);
        return blas ? kClblast : model_tile(p.device, problem);
      });
}

const char* refusal_of_gpu(const GemmProblem& p) {
  return p.device.family() == KernelFamily::kGpu ? nullptr : "for GPUs";
}

const char* refusal_of_clblast(const GemmProblem& p) {
  if (const char* reason = refusal_of_gpu(p)) return reason;
  const char* const reason = refusal_by_blas(p);
  p.tile = choose(p, !reason);
  if (reason) return reason;
  return p.tile == kClblast ? nullptr : "a tile is estimated or measured to be faster";
}

const char* refusal(const GemmProblem& p) {
  if (const char* reason = refusal_of_gpu(p)) return reason;
  if (!any_tile_fits(p.device, p.compute, TileUse::kProduct)) return kNoTile;
  if (p.tile < 0) p.tile = choose(p, false);
  return nullptr;
}

void run(const GemmProblem& p) {
  if (has_room_for(p.device, p.epilogue)) return run_tiles(p, p.tile);
  GemmProblem product = p;
  product.epilogue = {};
  run_tiles(product, p.tile);
  apply_epilogue(p.epilogue, p.out, p.out);
}

}  // namespace

const GemmAlgorithm kGemmClblast{"clblast", &refusal_of_clblast, &run_clblast};
const GemmAlgorithm kGemmGpu{"gpu_tiles", &refusal, &run};

}  // namespace ocl
