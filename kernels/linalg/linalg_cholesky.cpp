// Triangular systems and the Cholesky factorization for PyTorch's linear algebra.
#include <ATen/ceil_div.h>
#include <ATen/native/BatchLinearAlgebra.h>
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/tril.h>
#include <ATen/ops/zeros.h>

#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/linalg/linalg.h"
#include "native/linalg_cholesky.h"

namespace ocl {
namespace {

using at::Tensor;
using at::native::TransposeType;

constexpr int64_t kLeaf = 32;  // rows that one kernel factors
// How many elements of the factors are copied at a time, if there are several factors.
constexpr int64_t kInverses = int64_t{1} << 21;

void solve(const Tensor& a_any, const Tensor& b_any, bool left, bool upper, TransposeType transpose,
           bool unit) {
  expect_type(b_any, a_any.scalar_type(), "triangular_solve");
  if (b_any.numel() == 0) return;
  // Reads memory by columns, as BLAS would, whatever the tensor's strides are.
  Tensor a = matrices(a_any.mT().is_contiguous() ? a_any : a_any.mT()), b = matrices(b_any);
  if (transpose != TransposeType::NoTranspose) {
    a = a.mT();
    upper = !upper;
  }
  if (!left) {
    a = a.mT();
    b = b.mT();
    upper = !upper;
  }
  solve_triangular(a, b, {upper, unit, transpose == TransposeType::ConjTranspose});
}

void factor_leaf(const Tensor& a, const Tensor& info, int64_t first) {
  static constexpr const char* kName = "cholesky";
  Device& device = ocl_device(a);
  const Kernel& kernel =
      find_kernel(device, TeamKernel{"cholesky.cl", kName, a.scalar_type(), {}, kLeaf});
  const TeamGrid grid = team_grid(device, kernel, a.size(0));
  launch(stream_of(a), kernel, grid.global, grid.local, view(a), view(info),
         static_cast<uint64_t>(a.size(1)), static_cast<uint64_t>(a.size(0)), a.stride(1),
         a.stride(2), a.stride(0), static_cast<int32_t>(first));
}

// The lower triangle of a becomes L, a = L L^H; the upper one is overwritten.
void factor(const Tensor& a, const Tensor& info, int64_t first) {
  const int64_t n = a.size(1);
  if (n <= kLeaf) return factor_leaf(a, info, first);
  const int64_t half = at::round_up(n / 2, kLeaf), rest = n - half;
  const Tensor upper_left = a.narrow(1, 0, half).narrow(2, 0, half),
               lower_left = a.narrow(1, half, rest).narrow(2, 0, half),
               lower_right = a.narrow(1, half, rest).narrow(2, half, rest);
  factor(upper_left, info, first);
  solve_triangular(upper_left, lower_left.mT(), {.conjugate = true});
  multiply(lower_right, lower_left, lower_left.mT(), -1, 1, {false, true});
  factor(lower_right, info, first + half);
}

void cholesky(const Tensor& input, const Tensor& info, bool upper) {
  Tensor(info).zero_();
  if (input.numel() == 0) return;
  check_device_has(ocl_device(input), input.scalar_type(), "cholesky");
  // U = L^H: the transposed upper triangle is the lower one of conj(a), whose factor is conj(L) =
  // U^T.
  const Tensor a = matrices(input);
  factor(upper ? a.mT() : a, info, 0);
}

// b = (L L^H)^-1 b, or (U^H U)^-1 b.
void solve_factored(const Tensor& factor, const Tensor& b, bool upper) {
  const Tensor adjoint = factor.mT();
  if (upper) {
    solve_triangular(adjoint, b, {.upper = false, .conjugate = true});
    solve_triangular(factor, b, {.upper = true});
  } else {
    solve_triangular(factor, b, {.upper = false});
    solve_triangular(adjoint, b, {.upper = true, .conjugate = true});
  }
}

Tensor& cholesky_inverse(Tensor& result, Tensor& infos, bool upper) {
  if (result.numel() == 0) return result;
  // Finds the first zero on the diagonal, as LAPACK's potri reports it.
  const Tensor zeros = result.diagonal(0, -2, -1).eq(0).to(at::kInt);
  infos.copy_(zeros.argmax(-1).add(1).mul(zeros.amax(-1)).view(infos.sizes()));
  const Tensor all = matrices(result);
  const int64_t share = std::max<int64_t>(kInverses / (all.size(1) * all.size(2)), 1);
  for (const Tensor& inverses : all.split(share)) {
    const Tensor factors = inverses.clone();
    fill_identity(inverses);
    solve_factored(factors, inverses, upper);
  }
  return result;
}

}  // namespace

Tensor factor_cholesky(const Tensor& a) {
  const Tensor info = at::zeros({a.size(0)}, a.options().dtype(at::kInt));
  factor(a, info, 0);
  const Tensor lower = empty_matrices(a.size(0), a.size(1), a.size(2), a.options());
  lower.copy_(at::tril(a));
  return lower;
}

namespace native {

OCL_NATIVE("_cholesky_solve_helper", cholesky_solve_helper);
OCL_COMPLEX("_cholesky_solve_helper");
Tensor cholesky_solve_helper(const Tensor& self, const Tensor& A, bool upper) {
  Tensor result = at::native::cloneBatchedColumnMajor(self);
  if (result.numel() == 0) return result;
  solve_factored(matrices(at::native::cloneBatchedColumnMajor(A)), matrices(result), upper);
  return result;
}

}  // namespace native
}  // namespace ocl

namespace at::native {

OCL_STUB("triangular_solve.X,linalg_solve_triangular", triangular_solve_stub, &ocl::solve)
OCL_STUB("cholesky,linalg_cholesky_ex.L", cholesky_stub, &ocl::cholesky)
OCL_STUB("cholesky_inverse", cholesky_inverse_stub, &ocl::cholesky_inverse)
OCL_COMPLEX("triangular_solve.X,linalg_solve_triangular,cholesky,linalg_cholesky_ex.L");
OCL_COMPLEX("cholesky_inverse");

}  // namespace at::native
