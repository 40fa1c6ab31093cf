// The choice for matrix products on GPUs among tiles by a matrix unit, CLBlast and tiles in
// float32. One model estimates them all, and one measurement compares them.
#include "kernels/core/algorithms/algorithms.h"
#include "kernels/matmul/clblast.h"
#include "kernels/matmul/gpu/gemm_unit.h"

namespace ocl {
namespace {

constexpr size_t kBlasGroup = 64;  // work-items of the smallest groups of CLBlast

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
  if (p.stream.captured()) return "its launches cannot be captured";
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

// The candidates: the tiles of gemm_gpu.h, CLBlast, the tiles of gemm_unit.h.
const int64_t kClblast = std::ssize(gemm_gpu_tiles()), kFirstUnit = kClblast + 1,
              kCandidates = kFirstUnit + std::ssize(gemm_unit_tiles());

std::string name_of_candidate(int64_t candidate) {
  if (candidate >= kCandidates) return "";
  if (candidate > kClblast) return gemm_unit_tiles()[candidate - kFirstUnit].name();
  return candidate == kClblast ? "clblast" : gemm_gpu_tiles()[candidate].name();
}

}  // namespace

Tunable gemm_gpu_tiles_or_clblast("gemm_gpu", &name_of_candidate);

namespace {

// The kinds of candidates that may compute a product.
struct Candidates {
  bool tiles, clblast, units;
};

// The tile that the model estimates to be fastest, of the unit's tiles and those in float32.
int64_t model(const GemmProblem& p, const TileProblem& problem, const Candidates& may) {
  if (!may.units) return model_tile(p.device, problem);
  int64_t best = -1;
  double least = 0;
  const auto consider = [&](int64_t candidate, const TileShape& shape) {
    const double time = estimated_time(p.device, shape, problem);
    if (best >= 0 && time >= least) return;
    best = candidate;
    least = time;
  };
  for (int64_t i = 0; i < std::ssize(gemm_unit_tiles()); ++i) {
    if (!unit_tile_fits(p.device, p.operands, i)) continue;
    consider(kFirstUnit + i, shape_of_unit_tile(*matrix_unit(p.device), p.operands, i));
  }
  if (may.tiles) {
    const int64_t tile = model_tile(p.device, problem);
    consider(tile, gemm_gpu_tiles()[tile].shape());
  }
  return best;
}

int64_t choose(const GemmProblem& p, const Candidates& may) {
  const TileProblem problem = tile_problem(p);
  return choose_tuned(
      p.device, gemm_gpu_tiles_or_clblast, gemm_problem_key(p),
      [&](int64_t candidate) {
        if (candidate == kClblast) return may.clblast;
        if (candidate > kClblast) {
          return may.units && unit_tile_fits(p.device, p.operands, candidate - kFirstUnit);
        }
        return may.tiles && tile_fits(p.device, problem, candidate);
      },
      [&] {
        const bool blas = may.clblast && is_large(p) && !p.device.has(Quirk::kSlowClblast);
        return blas ? kClblast : model(p, problem, may);
      });
}

const char* refusal_of_gpu(const GemmProblem& p) {
  return p.device.family() == KernelFamily::kGpu ? nullptr : "for GPUs";
}

const char* refusal_of_unit(const GemmProblem& p) {
  if (const char* reason = refusal_of_gpu(p)) return reason;
  if (const char* reason = refusal_of_unit_tiles(p)) return reason;
  const bool tiles = p.type == p.operands && !is_disabled(kGemmGpu.name) &&
                     any_tile_fits(p.device, p.compute, TileUse::kProduct);
  const int64_t chosen = choose(p, {tiles, false, true});
  if (chosen < kFirstUnit) return "a tile in float32 is estimated or measured to be faster";
  p.tile = chosen;
  return nullptr;
}

const char* refusal_of_clblast(const GemmProblem& p) {
  if (const char* reason = refusal_of_gpu(p)) return reason;
  const char* const reason = refusal_by_blas(p);
  p.tile = choose(p, {true, !reason, false});
  if (reason) return reason;
  return p.tile == kClblast ? nullptr : "a tile is estimated or measured to be faster";
}

const char* refusal(const GemmProblem& p) {
  if (const char* reason = refusal_of_gpu(p)) return reason;
  if (!any_tile_fits(p.device, p.compute, TileUse::kProduct)) return kNoTile;
  if (p.tile < 0) p.tile = choose(p, {true, false, false});
  return nullptr;
}

// Runs the tile, and then the epilogue if the kernel has no registers left to fuse it.
void run_tile(const GemmProblem& p, void (*run)(const GemmProblem&, int64_t), int64_t tile) {
  if (has_room_for(p.device, p.epilogue)) return run(p, tile);
  GemmProblem product = p;
  product.epilogue = {};
  run(product, tile);
  apply_epilogue(p.epilogue, p.out, p.out);
}

}  // namespace

const GemmAlgorithm kGemmUnit{
    "gpu_unit", &refusal_of_unit,
    [](const GemmProblem& p) { run_tile(p, &run_unit_tile, p.tile - kFirstUnit); }, true};
const GemmAlgorithm kGemmClblast{"clblast", &refusal_of_clblast, &run_clblast};
const GemmAlgorithm kGemmGpu{"gpu_tiles", &refusal,
                             [](const GemmProblem& p) { run_tile(p, &run_gpu_tile, p.tile); }};

}  // namespace ocl
