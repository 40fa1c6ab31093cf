// Products of matrix and vector on GPUs: launches of gemv_gpu.cl.
#include <ATen/ceil_div.h>

#include <bit>

#include "kernels/matmul/gemm_problem.h"

namespace ocl {
namespace {

const char* refusal(const GemmProblem& p) {
  if (p.device.family() != KernelFamily::kGpu) return "for GPUs";
  return p.is_vector() ? nullptr : "no vector";
}

// Work-items of a group: (along the matrix's contiguous dimension, along the other).
std::pair<int64_t, int64_t> gemv_group(const GemmProblem& p, const GemvProblem& v) {
  const auto items = static_cast<int64_t>(std::bit_floor(p.device.parameters().work_group_size));
  const int64_t units = p.device.properties().max_compute_units;
  int64_t lanes = 64;
  if (v.transposed) {
    if (v.m * p.batches < 2 * units * lanes) lanes = 16;
  } else {
    if (p.k < 256) lanes = 16;
    if (p.k >= 4096 && v.m * p.batches < 4 * units) lanes = items;
  }
  lanes = std::min(lanes, items);
  return {lanes, items / lanes};
}

void run(const GemmProblem& p) {
  const GemvProblem v = as_gemv(p);
  const auto [lanes, rows] = gemv_group(p, v);
  static Site site;
  const KernelKey key{&site,
                      {static_cast<uint64_t>(p.type), gemm_flags(p, v.transposed, false),
                       static_cast<uint64_t>(lanes << 32 | rows)}};
  const Kernel& kernel = find_kernel(p.device, key, [&, lanes = lanes, rows = rows] {
    Defines defines = gemm_defines(p, v.transposed, false);
    defines.set("LANES", lanes).set("ROWS", rows);
    return KernelSource{"gemv_gpu.cl", "gemv", defines};
  });
  Arguments arguments(p.stream, kernel);
  add_gemm_tensors(arguments, p, v.matrix.tensor, v.vector.tensor);
  add_gemm_sizes(arguments, p, gemm_sizes(p, v));
  const int64_t groups = at::ceil_div(v.m, v.transposed ? lanes : rows);
  const auto x = static_cast<size_t>(lanes), y = static_cast<size_t>(rows),
             batches = static_cast<size_t>(p.batches);
  if (v.transposed) {
    arguments.enqueue({x * groups, y, batches}, {x, y, 1});
  } else {
    arguments.enqueue({x, y * groups, batches}, {x, y, 1});
  }
}

}  // namespace

const GemmAlgorithm kGemvGpu{"gpu_vector", &refusal, &run};

}  // namespace ocl
