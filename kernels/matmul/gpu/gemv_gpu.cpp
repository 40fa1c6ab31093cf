// Products of matrix and vector on GPUs: launches of gemv_gpu.cl.
#include <ATen/ceil_div.h>

#include <bit>

#include "kernels/matmul/gpu/gemm_gpu.h"

namespace ocl {
namespace {

struct GemvGpu {
  GemmCode code;
  bool quads;
  int64_t lanes;  // the most work-items of a group

  KernelSource source(Device&, size_t group) const {
    const auto items = static_cast<int64_t>(group);
    Defines defines = code.defines();
    defines.set("LANES", std::min(lanes, items)).set("ROWS", items / std::min(lanes, items));
    defines.set("QUADS", quads);
    return {"gemv_gpu.cl", "gemv", defines};
  }
};

const char* refusal(const GemmProblem& p) {
  if (p.device.family() != KernelFamily::kGpu) return "for GPUs";
  return p.is_vector() ? nullptr : "no vector";
}

// The size of a group along the matrix's contiguous dimension. The rest of the work-items is along
// the other.
int64_t lanes_of(const GemmProblem& p, const GemvProblem& v) {
  const auto items = static_cast<int64_t>(p.device.parameters().work_group_size);
  const int64_t units = p.device.properties().max_compute_units;
  int64_t lanes = 64;
  if (v.transposed) {
    if (v.m * p.batches < 2 * units * lanes) lanes = 16;
  } else {
    if (p.k < 256) lanes = 16;
    if (p.k >= 4096 && v.m * p.batches < 4 * units) lanes = items;
  }
  return lanes;
}

void run(const GemmProblem& p) {
  const GemvProblem v = as_gemv(p);
  const int64_t wanted = lanes_of(p, v);
  // `ld` of a vector is its length, as for a matrix of one row.
  const GemmOperand x_row{v.vector.tensor, false, p.k, v.vector.batch};
  const bool quads =
      !v.transposed && v.x_stride == 1 && in_quads(v.matrix, p.k, v.m) && in_quads(x_row, p.k, 1);
  const Kernel& kernel = find_kernel(p.device, GemvGpu{gemm_code(p, v), quads, wanted});
  Arguments arguments(p.stream, kernel);
  add_gemm_tensors(arguments, p, v.matrix.tensor, v.vector.tensor);
  add_gemm_sizes(arguments, p, gemm_sizes(p, v));
  const auto items = static_cast<int64_t>(kernel.group);
  const int64_t lanes = std::min(wanted, items), rows = items / lanes;
  const int64_t groups = at::ceil_div(v.m, v.transposed ? lanes : rows);
  const auto x = static_cast<size_t>(lanes), y = static_cast<size_t>(rows),
             batches = static_cast<size_t>(p.batches);
  if (v.transposed) {
    arguments.enqueue({x * groups, y, batches}, {x, y, 1}, p.work());
  } else {
    arguments.enqueue({x, y * groups, batches}, {x, y, 1}, p.work());
  }
}

}  // namespace

const GemmAlgorithm kGemvGpu{"gpu_vector", &refusal, &run};

}  // namespace ocl
