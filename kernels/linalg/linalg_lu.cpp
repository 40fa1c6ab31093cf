// The LU factorization for PyTorch's linear algebra: solving, inverting, determinants.
#include <ATen/TensorIterator.h>
#include <ATen/ceil_div.h>
#include <ATen/native/BatchLinearAlgebra.h>
#include <ATen/native/TransposeType.h>
#include <ATen/ops/arange.h>

#include "backend/queue/fault.h"
#include "kernels/core/grids/grid.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/linalg/linalg.h"

namespace ocl {
namespace {

using at::Tensor;
using at::native::TransposeType;

constexpr int64_t kPanel = 16;  // the most columns that one launch factors

struct Factors {
  Tensor pivots, info;  // [batch][min(rows, columns)] and [batch]
  bool pivoting;
};

void factor_panel(const Tensor& a, const Factors& factors, int64_t first) {
  static constexpr const char* kName = "lu_panel";
  Device& device = ocl_device(a);
  const char* const pivot = factors.pivoting ? "PIVOT" : nullptr;
  const Kernel& kernel = find_kernel(device, TeamKernel{"lu.cl", kName, a.scalar_type(), {pivot}});
  const TeamGrid grid = team_grid(device, kernel, a.size(0));
  launch(stream_of(a), kernel, grid.global, grid.local, view(a), view(factors.pivots),
         view(factors.info), static_cast<uint64_t>(a.size(1)), static_cast<uint64_t>(a.size(2)),
         static_cast<uint64_t>(a.size(0)), static_cast<uint64_t>(a.stride(2)),
         static_cast<uint64_t>(a.stride(0)), static_cast<uint64_t>(factors.pivots.stride(0)),
         static_cast<int32_t>(first));
}

// Factors columns from the diagonal down. `first`: the index of the first row. `factors`: the
// pivots and info of these columns.
void factor(const Tensor& a, const Factors& factors, int64_t first) {
  const int64_t rows = a.size(1), columns = a.size(2), count = std::min(rows, columns);
  if (columns <= kPanel) return factor_panel(a, factors, first);
  const int64_t half = at::round_up(std::min(count, columns / 2), kPanel);
  const int64_t left = std::min(half, count), rest = columns - left;
  const auto part = [&](int64_t from, int64_t size) {
    return Factors{factors.pivots.narrow(1, from, size), factors.info, factors.pivoting};
  };
  const Tensor right = a.narrow(2, left, rest), lower = a.narrow(2, 0, left);
  factor(lower, part(0, left), first);
  if (factors.pivoting) exchange_rows(right, factors.pivots.narrow(1, 0, left), {first});
  const Tensor upper_right = right.narrow(1, 0, left);
  solve_triangular(lower.narrow(1, 0, left), upper_right, {.upper = false, .unit = true});
  if (rows == left) return;
  const Tensor below = right.narrow(1, left, rows - left);
  multiply(below, lower.narrow(1, left, rows - left), upper_right, -1, 1);
  factor(below, part(left, count - left), first + left);
  if (factors.pivoting) {
    exchange_rows(lower.narrow(1, left, rows - left), factors.pivots.narrow(1, left, count - left),
                  {first + left});
  }
}

void lu_factor(const Tensor& input, const Tensor& pivots, const Tensor& info, bool pivoting) {
  Tensor(info).zero_();
  if (input.numel() == 0) return;
  check_device_has(ocl_device(input), input.scalar_type(), "lu_factor");
  factor(matrices(input), {vectors(pivots), info, pivoting}, 0);
}

void lu_solve(const Tensor& factors_any, const Tensor& pivots_any, const Tensor& b_any,
              TransposeType transpose) {
  if (b_any.numel() == 0) return;
  const auto batch = b_any.sizes().slice(0, b_any.dim() - 2);
  const Tensor lu = matrices(factors_any, batch), b = matrices(b_any),
               pivots = vectors(pivots_any, batch);
  if (transpose == TransposeType::NoTranspose) {
    exchange_rows(b, pivots, {.checked = true});
    solve_triangular(lu, b, {.upper = false, .unit = true});
    solve_triangular(lu, b, {.upper = true});
    return;
  }
  const bool conjugate = transpose == TransposeType::ConjTranspose;
  solve_triangular(lu.mT(), b, {.upper = false, .conjugate = conjugate});
  solve_triangular(lu.mT(), b, {.upper = true, .unit = true, .conjugate = conjugate});
  exchange_rows(b, pivots, {.backwards = true, .checked = true});
}

void unpack_pivots(at::TensorIterator& iter, const int64_t count, const int64_t size) {
  static constexpr const char* kName = "unpack_pivots";
  static const int site =
      fault_site({"lu_unpack", FaultClass::kRuntime, "pivot", "matrices of size"});
  const Tensor permutation = iter.tensor(0), pivots = iter.tensor(1);
  const int64_t batches = count == 0 ? 0 : permutation.numel() / size;
  if (batches == 0) return;
  // Checked, because the CPU's kernel would read outside of the pivots.
  const int64_t length = pivots.dim() == 0 ? 1 : pivots.size(-1);
  TORCH_CHECK(length >= count && pivots.numel() == batches * length, "lu_unpack: pivots of shape ",
              pivots.sizes(), " do not fit ", batches, " matrices with ", count,
              " pivots each. Did you properly pass the result of lu_factor?");
  Device& device = ocl_device(pivots);
  const Kernel& kernel = find_kernel(device, TeamKernel{"lu.cl", kName, ScalarType::Float});
  const size_t group = device.family() == KernelFamily::kCpu ? 1 : kFewItemsGroup;
  const size_t items = std::min<size_t>(batches, most_teams(device));
  launch(stream_of(pivots), kernel, {at::round_up(items, group)}, {.x = group, .may_shrink = true},
         view(permutation), view(pivots), static_cast<uint64_t>(batches),
         static_cast<uint64_t>(size), static_cast<uint64_t>(count), static_cast<uint64_t>(length),
         FaultArgument{site});
}

}  // namespace

void exchange_rows(const Tensor& b, const Tensor& pivots, Exchanges how) {
  static constexpr const char* kName = "exchange_rows";
  static const int site =
      fault_site({"linalg_lu_solve", FaultClass::kRuntime, "pivot", "matrices of size"});
  if (b.numel() == 0 || pivots.numel() == 0) return;
  Device& device = ocl_device(b);
  const bool cpu = device.family() == KernelFamily::kCpu;
  const char* const backwards = how.backwards ? "BACKWARDS" : nullptr;
  const char* const checked = how.checked ? "CHECKED" : nullptr;
  const Kernel& kernel =
      find_kernel(device, TeamKernel{"lu.cl", kName, b.scalar_type(), {backwards, checked}});
  const size_t batches = b.size(0), columns = b.size(2), most = most_teams(device);
  const size_t group = team_size(kernel);
  const size_t groups =
      std::clamp<size_t>(cpu ? columns / 16 : at::ceil_div(columns, group), 1, most);
  Arguments arguments(stream_of(b), kernel);
  arguments.add(view(b))
      .add(view(pivots))
      .add(static_cast<uint64_t>(pivots.size(1)))
      .add(static_cast<uint64_t>(columns))
      .add(static_cast<uint64_t>(batches))
      .add(b.stride(1))
      .add(b.stride(2))
      .add(b.stride(0))
      .add(static_cast<uint64_t>(pivots.stride(0)))
      .add(how.offset);
  if (how.checked) arguments.add(FaultArgument{site});
  arguments.enqueue({groups * group, std::min(batches, most)}, {group, 1});
}

}  // namespace ocl

namespace at::native {

OCL_STUB("linalg_lu_factor_ex.out", lu_factor_stub, &ocl::lu_factor)
OCL_STUB("linalg_lu_solve.out", lu_solve_stub, &ocl::lu_solve)
OCL_STUB("lu_unpack.out", unpack_pivots_stub, &ocl::unpack_pivots)
OCL_COMPLEX("linalg_lu_factor_ex.out,linalg_lu_solve.out,lu_unpack.out");

// PyTorch's implementations, which call the operators above.
OCL_SHARED("linalg_lu.out,_linalg_det.result,_linalg_slogdet.sign,linalg_inv_ex.inverse");
OCL_SHARED("_linalg_solve_ex.result");
OCL_COMPLEX("linalg_lu.out,_linalg_det.result,_linalg_slogdet.sign,linalg_inv_ex.inverse");
OCL_COMPLEX("_linalg_solve_ex.result");

}  // namespace at::native
