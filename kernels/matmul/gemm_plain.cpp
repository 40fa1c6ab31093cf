// Launches gemm_plain.cl: matrix products without tiles, if OCL_DISABLE leaves nothing else.
#include <ATen/ceil_div.h>

#include "kernels/core/algorithms/algorithms.h"
#include "kernels/matmul/gemm_problem.h"

namespace ocl {
namespace {

struct GemmPlain {
  GemmCode code;

  KernelSource source(Device&) const { return {"gemm_plain.cl", "gemm_plain", code.defines()}; }
};

const char* refusal(const GemmProblem&) { return nullptr; }

void run(const GemmProblem& p) {
  Arguments arguments(p.stream, find_kernel(p.device, GemmPlain{gemm_code(p)}));
  add_gemm_tensors(arguments, p, p.a.tensor, p.b.tensor);
  add_gemm_sizes(arguments, p, gemm_sizes(p));
  const size_t group = std::min<size_t>(arguments.group(), 64);
  arguments.enqueue({at::round_up(static_cast<size_t>(p.n), group), static_cast<size_t>(p.m),
                     static_cast<size_t>(p.batches)},
                    {group}, p.work() * kPlainCost);
}

}  // namespace

const GemmAlgorithm kGemmPlain{"plain_product", &refusal, &run};

}  // namespace ocl
