// The table of algorithms for matrix products, and the choice among them.
#include <charconv>

#include "backend/base/environment.h"
#include "kernels/core/algorithms/algorithms.h"
#include "kernels/matmul/gemm_problem.h"

namespace ocl {

static std::string describe(const GemmProblem& p) {
  return c10::str("matrix product, ", p.operands, " on ocl:", int{p.device.index()}, ", ",
                  p.batches, " of ", p.m, "x", p.k, p.a.transposed ? " (transposed)" : "", " by ",
                  p.k, "x", p.n, p.b.transposed ? " (transposed)" : "");
}

namespace {

using Row = const GemmAlgorithm*;

// The first row that applies is used. The refusals of the GPU rows for matrices are in
// gemm_choice.cpp.
constexpr Row kTable[] = {&kGemvCpuPairs, &kGemvCpu,  &kGemmUnitCpu, &kGemmCpuPairs, &kGemmCpu,
                          &kGemvGpu,      &kGemmUnit, &kGemmGpu,     &kGemmPlain};

const OptionalPaths optional(std::span<const Row>(kTable), kGemmPlain);

// Reads the index of a tile in the tables of candidates (docs/tuning.md) from the environment.
void read_tile() {
  constexpr const char* kVariable = "OCL_GEMM_TILE";
  const std::string text = environment(kVariable);
  if (text.empty()) return;
  int64_t tile = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), tile);
  TORCH_CHECK_VALUE(error == std::errc() && end == text.data() + text.size() && tile >= 0,
                    kVariable, ": '", printable(text), "' is not the number of a tile");
  gemm_cpu_tiles.force(tile);
  gemm_gpu_candidates.force(tile);
}

PreferredAlgorithm& preferred() {
  static auto* const instance = [] {
    std::vector<const char*> names;
    for (const Row row : kTable) names.push_back(row->name);
    read_tile();
    return new PreferredAlgorithm("OCL_GEMM_ALGORITHM", std::move(names));
  }();
  return *instance;
}

}  // namespace

// choose_algorithm() calls these.
static const char* refusal(const GemmAlgorithm& row, const GemmProblem& p) {
  if (p.operands != p.type && !row.widens) return "the result has another type";
  if (const char* reason = row.refusal(p)) return reason;
  const char* const name = preferred().name();
  const bool asks = row.disadvantage && !(name && std::string_view(name) == row.name);
  return asks ? row.disadvantage(p) : nullptr;
}

const GemmAlgorithm* choose_gemm(const GemmProblem& p) {
  return choose_algorithm(std::span<const Row>(kTable), preferred(), p);
}

void prefer_gemm_algorithm(std::string_view name) { preferred().set(name); }

}  // namespace ocl
