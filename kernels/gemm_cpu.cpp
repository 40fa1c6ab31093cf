// Launches of cl/gemm_cpu.cl.
#include <ATen/ceil_div.h>

#include "kernels/gemm_problem.h"

namespace ocl {
namespace {

// Register tile and packing of the kernel.
struct Tile {
  int64_t rows, vectors, lanes, depth, partial_rows;
};

int64_t vector_lanes(const GemmProblem& p) {
  const auto lanes = static_cast<int64_t>(p.device.parameters().vector_width * sizeof(float) /
                                          c10::elementSize(p.compute));
  return std::clamp<int64_t>(lanes, 4, 16);
}

Tile choose_tile(const GemmProblem& p) {
  Tile tile{12, 2, vector_lanes(p), 512, 0};
  for (const int64_t rows : {8, 4, 2, 1}) {
    if (p.m <= rows) tile.rows = rows;
  }
  if (p.n <= tile.lanes || (p.m <= 8 && p.b.transposed)) tile.vectors = 1;
  // Sums of more than `depth` products continue in memory; where storing rounds, in local memory.
  if (p.type != p.compute && p.k > tile.depth) tile.partial_rows = 240;
  const auto local = static_cast<int64_t>(p.device.properties().local_memory);
  const int64_t row = tile.vectors * tile.lanes * static_cast<int64_t>(c10::elementSize(p.compute));
  while (tile.depth > 32 && (tile.depth + tile.partial_rows) * row > local) tile.depth /= 2;
  return tile;
}

// False where the vector has gaps.
bool run_gemv(const GemmProblem& p) {
  const GemvProblem v = as_gemv(p);
  if (v.x_stride != 1 && p.k > 1) return false;
  static const char site = 0;
  const KernelKey key{reinterpret_cast<uint64_t>(&site),
                      {static_cast<uint64_t>(p.type), gemm_flags(p, v.transposed, false), 0}};
  const Kernel& kernel = find_kernel(p.device, key, [&] {
    Defines defines = gemm_defines(p, v.transposed, false);
    defines.set("VW", vector_lanes(p));
    return KernelSource{"gemm_cpu.cl", "gemv", defines};
  });
  const int64_t tasks = std::clamp<int64_t>(v.m * p.k / 16384, 1, 8);
  const int64_t rows_per_task = at::round_up(at::ceil_div(v.m, tasks), int64_t{16});
  Arguments arguments(p.stream, kernel);
  add_gemm_tensors(arguments, p, v.matrix.tensor, v.vector.tensor);
  arguments.add(static_cast<int32_t>(v.m))
      .add(static_cast<int32_t>(p.k))
      .add(v.matrix.ld)
      .add(v.out_stride)
      .add(v.c_stride)
      .add(v.matrix.batch)
      .add(v.vector.batch)
      .add(c_batch_stride(p))
      .add(p.out.dim() == 3 ? p.out.stride(0) : int64_t{0});
  add_number(arguments, p.alpha, p.compute);
  add_number(arguments, p.beta, p.compute);
  arguments.add(static_cast<int32_t>(rows_per_task))
      .enqueue({static_cast<size_t>(at::ceil_div(v.m, rows_per_task)), 1,
                static_cast<size_t>(p.batches)},
               {});
  return true;
}

}  // namespace

void run_gemm_cpu(const GemmProblem& p) {
  if (p.is_vector() && run_gemv(p)) return;
  const Tile tile = choose_tile(p);
  static const char site = 0;
  const KernelKey key{reinterpret_cast<uint64_t>(&site),
                      {static_cast<uint64_t>(p.type), gemm_flags(p, p.a.transposed, p.b.transposed),
                       static_cast<uint64_t>(tile.rows << 32 | tile.vectors << 28 |
                                             (tile.partial_rows > 0) << 24 | tile.depth)}};
  // Enough tasks for all cores, each with whole tiles.
  constexpr int64_t kTasks = 8;
  const int64_t panel = tile.vectors * tile.lanes;
  const int64_t panels = at::ceil_div(p.n, panel) * p.batches;
  const int64_t splits = at::ceil_div(kTasks, panels);
  int64_t rows_per_task = at::round_up(at::ceil_div(p.m, splits), tile.rows);
  if (tile.partial_rows) rows_per_task = std::min(rows_per_task, tile.partial_rows);
  const Kernel& kernel = find_kernel(p.device, key, [&] {
    Defines defines = gemm_defines(p, p.a.transposed, p.b.transposed);
    defines.set("MR", tile.rows)
        .set("NV", tile.vectors)
        .set("VW", tile.lanes)
        .set("KC", tile.depth)
        .set("PARTIAL_ROWS", tile.partial_rows);
    return KernelSource{"gemm_cpu.cl", "gemm", defines};
  });
  Arguments arguments(p.stream, kernel);
  add_gemm_tensors(arguments, p, p.a.tensor, p.b.tensor);
  add_gemm_sizes(arguments, p);
  arguments.add(static_cast<int32_t>(rows_per_task))
      .enqueue({static_cast<size_t>(at::ceil_div(p.m, rows_per_task)),
                static_cast<size_t>(at::ceil_div(p.n, panel)), static_cast<size_t>(p.batches)},
               {});
}

}  // namespace ocl
