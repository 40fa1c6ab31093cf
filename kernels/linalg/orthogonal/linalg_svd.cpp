// Singular values, and eigenvalues of Hermitian matrices, for PyTorch's linear algebra.
#include <ATen/TensorOperators.h>
#include <ATen/native/BatchLinearAlgebra.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/real.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/triu.h>
#include <ATen/ops/where.h>

#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/linalg/orthogonal/linalg_jacobi.h"
#include "kernels/linalg/orthogonal/linalg_qr.h"

namespace ocl {

namespace {

using at::Tensor;

// The largest |x| of each matrix: [batch][1][1].
Tensor magnitude(const Tensor& a) { return a.is_complex() ? at::abs(a) : a.abs(); }
Tensor largest(const Tensor& a) { return at::amax(magnitude(a), {-2, -1}, /*keepdim=*/true); }

// a *= factor, a real number for each matrix.
void scale(const Tensor& a, const Tensor& factor) {
  if (a.is_complex()) {
    at::real(a).mul_(factor);
    at::imag(a).mul_(factor);
  } else {
    Tensor(a).mul_(factor);
  }
}

// a /= divisor, a real number for each matrix. Scales matrices of subnormal numbers up first,
// because the reciprocal of a subnormal number is infinite.
void divide(const Tensor& a, const Tensor& divisor) {
  const double normal = is_double(a.scalar_type()) ? 0x1p-1022 : 0x1p-126;
  const Tensor larger = at::ones_like(divisor).masked_fill_(divisor.lt(normal), 0x1p100);
  scale(a, larger);
  scale(a, divisor.mul(larger).reciprocal());
}

// Completes the columns of v, which are orthonormal or zero, to a unitary matrix: other columns
// replace the zeros.
Tensor complete(const Tensor& v) {
  const Tensor factors = v.clone(), tau = at::empty({v.size(0), v.size(2)}, v.options());
  factor_qr(factors, tau);
  // QR returns the columns times the phases on the diagonal of R.
  const Tensor phases = factors.diagonal(0, -2, -1).clone();
  const Tensor q = empty_matrices(v.size(0), v.size(1), v.size(2), v.options());
  fill_identity(q);
  apply_q(factors, tau, q, /*adjoint=*/false);
  const Tensor found = column_norms(v).gt(0.5);
  const Tensor rotated = empty_matrices(v.size(0), v.size(1), v.size(2), v.options());
  rotated.copy_(q * phases.unsqueeze(1));
  return at::where(found.unsqueeze(1), rotated, q);
}

struct Svd {
  Tensor u, s, v;
};

// given = u diag(s) v^H for matrices with at least as many rows as columns; u has `u_columns`
// columns. `given` is overwritten. Without `vectors`, computes s only.
Svd svd_of_tall(const Tensor& given, int64_t u_columns, bool vectors, bool& converged) {
  const int64_t batches = given.size(0), m = given.size(1), n = given.size(2);
  const Tensor unit = largest(given), divisor = at::where(unit.gt(0), unit, at::ones_like(unit));
  divide(given, divisor);
  // Long columns first: rotations of R^H then converge in few sweeps.
  const Tensor places = std::get<1>(at::sort(column_norms(given), -1, /*descending=*/true));
  const Tensor a = take_columns(given, places, {}, 0);
  const Tensor tau = at::empty({batches, n}, a.options());
  factor_qr(a, tau);
  // R^H J = W S makes a = given P = (Q J) S W^H, for the permutation P.
  const Tensor x = empty_matrices(batches, n, n, a.options());
  x.copy_(at::triu(a.narrow(1, 0, n)).mH());
  Tensor rotated;
  if (vectors) {
    rotated = empty_matrices(batches, n, n, a.options());
    fill_identity(rotated);
  }
  converged = orthogonalize(x, rotated);
  const auto [norms, order] = at::sort(column_norms(x), -1, /*descending=*/true);
  const Tensor s = norms * divisor.squeeze(-1);
  if (!vectors) return {{}, s, {}};
  // The square of the type's precision: shorter columns are noise, and need not be orthogonal
  // (R_NOISE of kernels/linalg/matrix.clh).
  const double least = is_double(a.scalar_type()) ? 0x1p-104 : 0x1p-46;
  Tensor v = take_columns(x, order, norms.contiguous(), least);
  if (norms.le(least).any().item<bool>()) v = complete(v);
  v = at::empty_like(v).scatter_(1, places.unsqueeze(-1).expand_as(v), v);
  const Tensor u = empty_matrices(batches, m, u_columns, a.options());
  fill_identity(u);
  u.narrow(1, 0, n).narrow(2, 0, n).copy_(take_columns(rotated, order, {}, 0));
  apply_q(a, tau, u, /*adjoint=*/false);
  return {u, s, v};
}

// Sets LAPACK's codes: `not_finite` for a matrix with NaN or infinities, and 1 more if it did not
// converge.
void set_info(const Tensor& info, const Tensor& a, int not_finite, bool converged) {
  const Tensor finite = at::isfinite(at::sum(largest(a), {-2, -1}));
  Tensor code = finite.logical_not().to(at::kInt).mul_(not_finite);
  if (!converged) code.add_(1);
  Tensor(info).copy_(code.view(info.sizes()));
}

void svd(const Tensor& a_any, const bool full_matrices, const bool compute_uv,
         const std::optional<std::string_view>& driver, const Tensor& u, const Tensor& s,
         const Tensor& vh, const Tensor& info) {
  if (a_any.numel() == 0) return;
  check_device_has(ocl_device(a_any), a_any.scalar_type(), "svd");
  const Tensor given = matrices(a_any.is_contiguous() ? a_any : a_any.contiguous());
  const int64_t batches = given.size(0), rows = given.size(1), columns = given.size(2);
  const bool wide = rows < columns;
  const int64_t m = std::max(rows, columns), n = std::min(rows, columns);
  const Tensor a = empty_matrices(batches, m, n, given.options());
  a.copy_(wide ? given.mH() : given);
  bool converged = true;
  const Svd result = svd_of_tall(a, full_matrices ? m : n, compute_uv, converged);
  set_info(info, given, -4, converged);
  Tensor(s).copy_(result.s.view(s.sizes()));
  if (!compute_uv) return;
  const Tensor &left = wide ? result.v : result.u, &right = wide ? result.u : result.v;
  Tensor(u).copy_(left.reshape(u.sizes()));
  Tensor(vh).copy_(right.mH().reshape(vh.sizes()));
}

// A tight upper bound of the 2-norm of Hermitian matrices, ||a^4||_F^(1/4): [batch][1].
Tensor norm_bound(const Tensor& a) {
  const Tensor square = at::empty_like(a), fourth = at::empty_like(a);
  multiply(square, a, a);
  multiply(fourth, square, square);
  return at::sum(magnitude(fourth).pow(2), {-2, -1}).pow(0.125).unsqueeze(-1);
}

// The shift makes a + shift positive definite. Jacobi rotations J orthogonalize its Cholesky factor
// L: with L J = W S, a + shift = W S^2 W^H.
void eigh(const Tensor& values, const Tensor& vectors, const Tensor& info, bool upper,
          bool /*compute_eigenvectors*/) {
  if (vectors.numel() == 0) {
    Tensor(info).zero_();
    return;
  }
  check_device_has(ocl_device(vectors), vectors.scalar_type(), "eigh");
  const Tensor out = matrices(vectors), a = hermitian(out, upper);
  const Tensor rows = at::amax(at::sum(magnitude(a), {-1}), {-1});  // [batch]
  const Tensor unit = at::where(rows.gt(0), rows, at::ones_like(rows)).reshape({-1, 1, 1});
  const Tensor shifted = a.clone();
  divide(shifted, unit);
  const Tensor shift = norm_bound(shifted).mul(1.25);
  const Tensor diagonal = (shifted.is_complex() ? at::real(shifted) : shifted).diagonal(0, -2, -1);
  Tensor(diagonal).add_(at::where(shift.gt(0), shift, at::ones_like(shift)));
  const Tensor x = factor_cholesky(shifted);
  const bool converged = orthogonalize(x, {});
  // The Rayleigh quotients v^H a v are more precise than S^2 - shift.
  const int64_t n = a.size(1);
  const Tensor order =
      at::arange(n, at::kLong, {}, a.device(), {}).expand({a.size(0), n}).contiguous();
  const Tensor unsorted = take_columns(x, order, column_norms(x), 0);
  const Tensor products = at::empty_like(unsorted);
  multiply(products, a, unsorted);
  const auto dot = [](const Tensor& v, const Tensor& w) { return at::sum(v * w, {-2}); };
  const Tensor quotients = a.is_complex() ? dot(at::real(unsorted), at::real(products)) +
                                                dot(at::imag(unsorted), at::imag(products))
                                          : dot(unsorted, products);
  const auto [sorted, positions] = at::sort(quotients, -1);
  set_info(info, a, static_cast<int>(n), converged);
  Tensor(values).copy_(sorted.view(values.sizes()));
  Tensor(out).copy_(take_columns(unsorted, positions.contiguous(), {}, 0));
}

}  // namespace
}  // namespace ocl

namespace at::native {

OCL_STUB("_linalg_svd.U", svd_stub, &ocl::svd)
OCL_STUB("_linalg_eigh.eigenvalues", linalg_eigh_stub, &ocl::eigh)
OCL_COMPLEX("_linalg_svd.U,_linalg_eigh.eigenvalues");
OCL_SHARED("linalg_polar.out,linalg_matrix_sqrth");
OCL_COMPLEX("linalg_polar.out,linalg_matrix_sqrth");

}  // namespace at::native
