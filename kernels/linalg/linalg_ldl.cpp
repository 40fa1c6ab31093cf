// The LDL factorization of symmetric and Hermitian indefinite matrices for PyTorch's linear
// algebra.
#include <ATen/ceil_div.h>
#include <ATen/native/BatchLinearAlgebra.h>

#include "backend/fault.h"
#include "kernels/core/dtype.h"
#include "kernels/core/registration.h"
#include "kernels/core/tensors.h"
#include "kernels/linalg/linalg.h"

namespace ocl {
namespace {

using at::Tensor;

const Kernel& find(Device& device, const char* name, ScalarType type, bool hermitian) {
  const bool conjugate = hermitian && c10::isComplexType(type);
  return find_team_kernel(device, "ldl.cl", name, type, uint64_t{conjugate}, [&](Defines& defines) {
    if (conjugate) defines.set("HERMITIAN", 1);
  });
}

// PyTorch asks for lower triangles only.
void check_lower(bool upper) {
  TORCH_CHECK_NOT_IMPLEMENTED(!upper, "ldl_factor: upper triangles are not implemented for ocl");
}

void ldl_factor(const Tensor& factors, const Tensor& pivots, const Tensor& info, bool upper,
                bool hermitian) {
  static constexpr const char* kName = "ldl_factor";
  if (factors.numel() == 0) return;
  check_lower(upper);
  Device& device = ocl_device(factors);
  check_device_has(device, factors.scalar_type(), kName);
  const Tensor a = matrices(factors);
  const Kernel& kernel = find(device, kName, a.scalar_type(), hermitian);
  const TeamGrid grid = team_grid(device, kernel, a.size(0));
  launch(stream_of(a), kernel, grid.global, grid.local, view(a), view(pivots), view(info),
         static_cast<uint64_t>(a.size(1)), static_cast<uint64_t>(a.size(0)),
         static_cast<uint64_t>(a.stride(2)), static_cast<uint64_t>(a.stride(0)));
}

void ldl_solve(const Tensor& factors, const Tensor& pivots, const Tensor& result, bool upper,
               bool hermitian) {
  static constexpr const char* kName = "ldl_solve";
  static const int site =
      fault_site({"linalg_ldl_solve", FaultClass::kRuntime, "pivot", "matrices of size"});
  if (result.numel() == 0) return;
  check_lower(upper);
  Device& device = ocl_device(result);
  const auto batch = result.sizes().slice(0, result.dim() - 2);
  const Tensor x = matrices(result), a = matrices(factors, batch),
               exchanges = vectors(pivots.to(at::kInt), batch);
  const Kernel& kernel = find(device, kName, x.scalar_type(), hermitian);
  const size_t group = team_size(kernel), columns = x.size(2), most = most_teams(device);
  const size_t groups = std::min(at::ceil_div(columns, group), most);
  launch(stream_of(x), kernel, {groups * group, std::min<size_t>(x.size(0), most)}, {group, 1},
         view(a), view(exchanges), view(x), static_cast<uint64_t>(x.size(1)), uint64_t{columns},
         static_cast<uint64_t>(x.size(0)), static_cast<uint64_t>(a.stride(2)),
         static_cast<uint64_t>(a.stride(0)), static_cast<uint64_t>(x.stride(2)),
         static_cast<uint64_t>(x.stride(0)), static_cast<uint64_t>(exchanges.stride(0)),
         FaultArgument{site});
}

}  // namespace
}  // namespace ocl

namespace at::native {

OCL_STUB("linalg_ldl_factor_ex.out", ldl_factor_stub, &ocl::ldl_factor)
OCL_STUB("linalg_ldl_solve.out", ldl_solve_stub, &ocl::ldl_solve)
OCL_COMPLEX("linalg_ldl_factor_ex.out,linalg_ldl_solve.out");

}  // namespace at::native
