// Matrix products without tiles, where OCL_DISABLE leaves nothing else: launches of gemm_plain.cl.
#include <ATen/ceil_div.h>

#include "kernels/core/algorithms.h"
#include "kernels/matmul/gemm_problem.h"

namespace ocl {
namespace {

const char* refusal(const GemmProblem&) { return nullptr; }

void run(const GemmProblem& p) {
  static Site site;
  const KernelKey key{
      &site, {static_cast<uint64_t>(p.type), gemm_flags(p, p.a.transposed, p.b.transposed)}};
  const Kernel& kernel = find_kernel(p.device, key, [&] {
    return KernelSource{"gemm_plain.cl", "gemm_plain",
                        gemm_defines(p, p.a.transposed, p.b.transposed)};
  });
  Arguments arguments(p.stream, kernel);
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
