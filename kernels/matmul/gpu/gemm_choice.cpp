// The choice for matrix products on GPUs among tiles by a matrix unit and tiles in float32. One
// model estimates them all, and one measurement compares them.
#include "kernels/core/algorithms/algorithms.h"
#include "kernels/matmul/gpu/gemm_unit.h"

namespace ocl {
namespace {

// The candidates: the tiles of gemm_gpu.h, then those of gemm_unit.h.
const int64_t kFirstUnit = std::ssize(gemm_gpu_tiles()),
              kCandidates = kFirstUnit + std::ssize(gemm_unit_tiles());

std::string name_of_candidate(int64_t candidate) {
  if (candidate >= kCandidates) return "";
  if (candidate >= kFirstUnit) return gemm_unit_tiles()[candidate - kFirstUnit].name();
  return gemm_gpu_tiles()[candidate].name();
}

}  // namespace

Tunable gemm_gpu_candidates("gemm_gpu", &name_of_candidate);

namespace {

// The kinds of candidates that may compute a product.
struct Candidates {
  bool tiles, units;
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
      p.device, gemm_gpu_candidates, gemm_problem_key(p),
      [&](int64_t candidate) {
        if (candidate >= kFirstUnit) {
          return may.units && unit_tile_fits(p.device, p.operands, candidate - kFirstUnit);
        }
        return may.tiles && tile_fits(p.device, problem, candidate);
      },
      [&] { return model(p, problem, may); });
}

const char* refusal_of_gpu(const GemmProblem& p) {
  return p.device.family() == KernelFamily::kGpu ? nullptr : "for GPUs";
}

const char* refusal_of_unit(const GemmProblem& p) {
  if (const char* reason = refusal_of_gpu(p)) return reason;
  if (const char* reason = refusal_of_unit_tiles(p)) return reason;
  const bool tiles = p.type == p.operands && !is_disabled(kGemmGpu.name) &&
                     any_tile_fits(p.device, p.compute, TileUse::kProduct);
  const int64_t chosen = choose(p, {tiles, true});
  if (chosen < kFirstUnit) return "a tile in float32 is estimated or measured to be faster";
  p.tile = chosen;
  return nullptr;
}

const char* refusal(const GemmProblem& p) {
  if (const char* reason = refusal_of_gpu(p)) return reason;
  if (!any_tile_fits(p.device, p.compute, TileUse::kProduct)) return kNoTile;
  p.tile = choose(p, {true, false});
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
const GemmAlgorithm kGemmGpu{"gpu_tiles", &refusal,
                             [](const GemmProblem& p) { run_tile(p, &run_gpu_tile, p.tile); }};

}  // namespace ocl
