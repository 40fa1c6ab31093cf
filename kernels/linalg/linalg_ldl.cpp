// The LDL factorization of symmetric and Hermitian indefinite matrices for PyTorch's linear
// algebra.
#include <ATen/ceil_div.h>
#include <ATen/native/BatchLinearAlgebra.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "backend/queue/fault.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/linalg/linalg.h"

namespace ocl {
namespace {

using at::Tensor;

// A GPU is reset if a launch takes seconds. So only small matrices are factored by one launch, and
// a work-item of a launch that solves makes at most kMostSteps steps.
constexpr int64_t kMostRows = 256;
constexpr int64_t kMostSteps = int64_t{1} << 17;

const Kernel& kernel_of(Device& device, const char* name, ScalarType type, bool hermitian) {
  const bool conjugate = hermitian && c10::isComplexType(type);
  return find_kernel(device, TeamKernel{"ldl.cl", name, type, {conjugate ? "HERMITIAN" : nullptr}});
}

// PyTorch asks for lower triangles only.
void check_lower(bool upper) {
  TORCH_CHECK_NOT_IMPLEMENTED(!upper, "ldl_factor: upper triangles are not implemented for ocl");
}

// Two launches for each block of D: the first finds its pivot, and in the second many teams update
// the rest of the matrix.
void factor_by_blocks(const Tensor& a, const Tensor& pivots, const Tensor& info, bool hermitian) {
  Device& device = ocl_device(a);
  const int64_t batches = a.size(0), n = a.size(1);
  const Tensor blocks = at::full({batches, 2}, -1, info.options());
  const Kernel &pivot = kernel_of(device, "ldl_pivot", a.scalar_type(), hermitian),
               &update = kernel_of(device, "ldl_update", a.scalar_type(), hermitian);
  const TeamGrid grid = team_grid(device, pivot, batches);
  const size_t team = team_size(update), most = most_teams(device);
  Tensor(info).zero_();
  const auto sizes = [&](Arguments& arguments) -> Arguments& {
    return arguments.add(static_cast<uint64_t>(n))
        .add(static_cast<uint64_t>(batches))
        .add(static_cast<uint64_t>(a.stride(2)))
        .add(static_cast<uint64_t>(a.stride(0)));
  };
  for (int64_t block = 0; block < n; ++block) {  // the most blocks: some have two rows
    Arguments choose(stream_of(a), pivot);
    choose.add(view(a)).add(view(pivots)).add(view(info)).add(view(blocks));
    sizes(choose).enqueue(grid.global, grid.local);
    const auto columns = static_cast<size_t>(n - block - 1);
    if (columns == 0) break;
    Arguments subtract(stream_of(a), update);
    subtract.add(view(a)).add(view(blocks));
    sizes(subtract).enqueue({team, std::min(columns, most), std::min<size_t>(batches, most)},
                            {team});
  }
}

void ldl_factor(const Tensor& factors, const Tensor& pivots, const Tensor& info, bool upper,
                bool hermitian) {
  static constexpr const char* kName = "ldl_factor";
  if (factors.numel() == 0) return;
  check_lower(upper);
  Device& device = ocl_device(factors);
  check_device_has(device, factors.scalar_type(), kName);
  const Tensor a = matrices(factors);
  if (device.family() == KernelFamily::kGpu && a.size(1) > kMostRows) {
    return factor_by_blocks(a, pivots, info, hermitian);
  }
  const Kernel& kernel = kernel_of(device, kName, a.scalar_type(), hermitian);
  const TeamGrid grid = team_grid(device, kernel, a.size(0));
  launch(stream_of(a), kernel, grid.global, grid.local, view(a), view(pivots), view(info),
         static_cast<uint64_t>(a.size(1)), static_cast<uint64_t>(a.size(0)),
         static_cast<uint64_t>(a.stride(2)), static_cast<uint64_t>(a.stride(0)));
}

void ldl_solve(const Tensor& factors, const Tensor& pivots, const Tensor& result, bool upper,
               bool hermitian) {
  static constexpr const char *kForward = "ldl_forward", *kBackward = "ldl_backward";
  static const int site =
      fault_site({"linalg_ldl_solve", FaultClass::kRuntime, "pivot", "matrices of size"});
  if (result.numel() == 0) return;
  check_lower(upper);
  Device& device = ocl_device(result);
  if (const ScalarType type = pivots.scalar_type(); c10::isBarebonesUnsignedType(type)) {
    refuse_type(device, type, "linalg_ldl_solve");
  }
  const auto batch = result.sizes().slice(0, result.dim() - 2);
  const Tensor x = matrices(result), a = matrices(factors, batch),
               exchanges = vectors(pivots.to(at::kLong), batch);
  const int64_t n = x.size(1);
  const size_t columns = x.size(2), most = most_teams(device);
  const Tensor rows = at::zeros({x.size(0), x.size(2)}, exchanges.options().dtype(at::kInt));
  const auto run = [&](const char* name, int64_t until) {
    const Kernel& kernel = kernel_of(device, name, x.scalar_type(), hermitian);
    const size_t group = team_size(kernel);
    const size_t groups = std::min(at::ceil_div(columns, group), most);
    Arguments arguments(stream_of(x), kernel);
    arguments.add(view(a)).add(view(exchanges)).add(view(x)).add(view(rows));
    for (const int64_t number : {until, n, x.size(2), x.size(0), a.stride(2), a.stride(0),
                                 x.stride(2), x.stride(0), exchanges.stride(0)}) {
      arguments.add(static_cast<uint64_t>(number));
    }
    if (name == kForward) arguments.add(FaultArgument{site});
    arguments.enqueue({groups * group, std::min<size_t>(x.size(0), most)}, {group, 1});
  };
  const bool cpu = device.family() == KernelFamily::kCpu;
  const int64_t part = cpu ? n : std::max<int64_t>(kMostSteps / n, 1);
  for (int64_t until = std::min(part, n);; until = std::min(until + part, n)) {
    run(kForward, until);
    if (until == n) break;
  }
  for (int64_t until = std::max<int64_t>(n - part, 0);;
       until = std::max<int64_t>(until - part, 0)) {
    run(kBackward, until);
    if (until == 0) break;
  }
}

}  // namespace
}  // namespace ocl

namespace at::native {

OCL_STUB("linalg_ldl_factor_ex.out", ldl_factor_stub, &ocl::ldl_factor)
OCL_STUB("linalg_ldl_solve.out", ldl_solve_stub, &ocl::ldl_solve)
OCL_COMPLEX("linalg_ldl_factor_ex.out,linalg_ldl_solve.out");

}  // namespace at::native
