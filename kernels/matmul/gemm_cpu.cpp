// Launches of gemm_cpu.cl and gemv_cpu.cl.
#include <ATen/ceil_div.h>

#include "backend/base/error.h"
#include "kernels/core/algorithms/dot_bfloat16.h"
#include "kernels/core/grids/vector_registers.h"
#include "kernels/matmul/gemm_problem.h"
#include "kernels/matmul/x_space.h"

namespace ocl {
namespace {

// Register tile and packing of the kernel.
struct Tile {
  int32_t rows, vectors, lanes, depth;
  int32_t partial_rows = 0;
  bool pairs = false;  // a step in k has two products
  bool copies_a = false;
};

struct GemvCpu {
  GemmCode code;
  bool pairs;
  int32_t lanes;
  int64_t x_space;

  KernelSource source(Device&) const {
    Defines defines = code.defines();
    defines.set("VW", lanes).set("X_SPACE", x_space).set("PAIRS", pairs);
    return {"gemv_cpu.cl", "gemv", defines};
  }
};

struct GemmCpu {
  GemmCode code;
  Tile tile;

  KernelSource source(Device&) const {
    Defines defines = code.defines();
    defines.set("MR", tile.rows)
        .set("NV", tile.vectors)
        .set("VW", tile.lanes)
        .set("KC", tile.depth)
        .set("PAIRS", tile.pairs)
        .set("COPY_A", tile.copies_a)
        .set("PARTIAL_ROWS", tile.partial_rows);
    return {"gemm_cpu.cl", "gemm", defines};
  }
};

int32_t vector_lanes(const GemmProblem& p) {
  const auto lanes = static_cast<int32_t>(p.device.parameters().vector_width * sizeof(float) /
                                          c10::elementSize(p.compute));
  return std::clamp(lanes, 4, 16);
}

// Rows, vectors and depth to choose from. The sums of rows x vectors stay in registers
// (vector_registers.h).
struct Candidate {
  int32_t rows, vectors, depth;
};
constexpr Candidate kCandidates[] = {{12, 2, 512}, {12, 2, 256}, {8, 2, 512}, {14, 2, 512},
                                     {8, 3, 384},  {6, 1, 512},  {6, 1, 256}, {3, 1, 512}};
constexpr int64_t kForAvx512 = 0, kFewerRows = 2, kForNarrower = 5;

std::string name_of_candidate(int64_t candidate) {
  if (candidate >= std::ssize(kCandidates)) return "";
  const auto [rows, vectors, depth] = kCandidates[candidate];
  return str(rows, "x", vectors, "x", depth);
}

// Whether the rows of A are a multiple of 4 KiB apart. Then they share one set of the first level
// cache, which keeps only 8 to 12 rows.
bool rows_collide(const GemmProblem& p) {
  return !p.a.transposed && p.a.ld * static_cast<int64_t>(c10::elementSize(p.operands)) % 4096 == 0;
}

}  // namespace

Tunable gemm_cpu_tiles("gemm_cpu", &name_of_candidate);

namespace {

const Candidate& choose_candidate(const GemmProblem& p) {
  const auto otherwise = [&]() -> int64_t {
    if (!has_wide_registers(p.device)) return kForNarrower;
    const auto computed = [&](int64_t choice) {
      return at::round_up<int64_t>(p.m, kCandidates[choice].rows);
    };
    const bool wastes = computed(kForAvx512) > computed(kFewerRows);
    return rows_collide(p) || wastes ? kFewerRows : kForAvx512;
  };
  return kCandidates[choose_tuned(
      p.device, gemm_cpu_tiles, gemm_problem_key(p), [](int64_t) { return true; }, otherwise)];
}

Tile choose_tile(const GemmProblem& p, bool pairs) {
  Tile tile{1, 2, vector_lanes(p), 512};
  if (p.m > 8) {
    const Candidate& chosen = choose_candidate(p);
    tile = {chosen.rows, chosen.vectors, tile.lanes, chosen.depth};
  } else {
    const bool wide = has_wide_registers(p.device);
    while (tile.rows < (wide ? p.m : std::min<int64_t>(p.m, 4))) tile.rows *= 2;
    if (p.b.transposed || (!wide && tile.rows == 4)) tile.vectors = 1;
  }
  if (p.n <= tile.lanes) tile.vectors = 1;
  tile.pairs = pairs;
  if (pairs) tile.depth *= 2;
  tile.copies_a = pairs || (p.type != p.compute && !p.a.transposed);
  const auto local = static_cast<int64_t>(p.device.properties().local_memory);
  int32_t partial_tiles = 20;
  // Sums of more than `depth` products continue in memory; in local memory if storing to C would
  // round.
  const auto bytes = [&] {
    const bool continues = p.type != p.compute && p.k > tile.depth;
    tile.partial_rows = continues ? partial_tiles * tile.rows : 0;
    const int64_t steps = tile.depth / (pairs ? 2 : 1);
    const int64_t copy = tile.copies_a ? tile.rows * (steps + tile.lanes) : 0;
    const int64_t rows = steps + tile.partial_rows;
    return (rows * tile.vectors * tile.lanes + copy) *
           static_cast<int64_t>(c10::elementSize(p.compute));
  };
  while (bytes() > local && tile.depth > 32) tile.depth /= 2;
  while (bytes() > local && partial_tiles > 1) partial_tiles /= 2;
  return tile;
}

const char* refusal(const GemmProblem& p) {
  return p.device.family() == KernelFamily::kCpu ? nullptr : "for CPU devices";
}

const char* refusal_of_gemv(const GemmProblem& p) {
  if (const char* reason = refusal(p)) return reason;
  if (!p.is_vector()) return "no vector";
  return as_gemv(p).x_stride == 1 || p.k <= 1 ? nullptr : "the vector has gaps";
}

void run_gemv(const GemmProblem& p, bool pairs) {
  const GemvProblem v = as_gemv(p);
  const int64_t space = v.transposed || pairs ? 0 : space_of_x(p.device, p.type, p.k);
  const Kernel& kernel =
      find_kernel(p.device, GemvCpu{gemm_code(p, v), pairs, vector_lanes(p), space});
  const auto most = static_cast<int64_t>(p.device.parameters().tasks);
  const int64_t tasks = std::clamp<int64_t>(v.m * p.k / 16384, 1, most);
  const int64_t rows_per_task = at::round_up(at::ceil_div(v.m, tasks), int64_t{16});
  Arguments arguments(p.stream, kernel);
  add_gemm_tensors(arguments, p, v.matrix.tensor, v.vector.tensor);
  add_gemm_sizes(arguments, p, gemm_sizes(p, v));
  arguments.add(static_cast<int32_t>(rows_per_task))
      .enqueue({static_cast<size_t>(at::ceil_div(v.m, rows_per_task)), 1,
                static_cast<size_t>(p.batches)},
               {});
}

void run_tiles(const GemmProblem& p, bool pairs) {
  const Tile tile = choose_tile(p, pairs);
  // Makes enough tasks for all cores. Each task has whole tiles.
  const auto tasks = static_cast<int64_t>(p.device.parameters().tasks);
  const int64_t panel = tile.vectors * tile.lanes;
  const int64_t panels = at::ceil_div(p.n, panel) * p.batches;
  const int64_t splits = at::ceil_div(tasks, panels);
  int64_t rows_per_task = at::round_up<int64_t>(at::ceil_div(p.m, splits), tile.rows);
  if (tile.partial_rows) rows_per_task = std::min<int64_t>(rows_per_task, tile.partial_rows);
  Arguments arguments(p.stream, find_kernel(p.device, GemmCpu{gemm_code(p), tile}));
  add_gemm_tensors(arguments, p, p.a.tensor, p.b.tensor);
  add_gemm_sizes(arguments, p, gemm_sizes(p));
  arguments.add(static_cast<int32_t>(rows_per_task))
      .enqueue({static_cast<size_t>(at::ceil_div(p.m, rows_per_task)),
                static_cast<size_t>(at::ceil_div(p.n, panel)), static_cast<size_t>(p.batches)},
               {});
}

const char* refusal_of_pairs(const GemmProblem& p) {
  if (const char* reason = refusal(p)) return reason;
  if (p.operands != ScalarType::BFloat16) return "not bfloat16";
  return refusal_of_dot_bfloat16(p.device);
}

const char* refusal_of_gemv_pairs(const GemmProblem& p) {
  if (const char* reason = refusal_of_gemv(p)) return reason;
  if (as_gemv(p).transposed) return "the matrix is transposed";
  return refusal_of_pairs(p);
}

}  // namespace

const GemmAlgorithm kGemvCpuPairs{"cpu_vector_pairs", &refusal_of_gemv_pairs,
                                  [](const GemmProblem& p) { run_gemv(p, true); }};
const GemmAlgorithm kGemvCpu{"cpu_vector", &refusal_of_gemv,
                             [](const GemmProblem& p) { run_gemv(p, false); }};
const GemmAlgorithm kGemmCpuPairs{"cpu_pairs", &refusal_of_pairs,
                                  [](const GemmProblem& p) { run_tiles(p, true); }, true};
const GemmAlgorithm kGemmCpu{"cpu_tiles", &refusal,
                             [](const GemmProblem& p) { run_tiles(p, false); }};

}  // namespace ocl
