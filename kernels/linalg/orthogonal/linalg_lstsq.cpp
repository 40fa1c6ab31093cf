// Least squares, by QR and by singular values.
#include <ATen/ExpandUtils.h>
#include <ATen/native/BatchLinearAlgebra.h>
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_linalg_svd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_lstsq_native.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/where.h>

#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/linalg/orthogonal/linalg_qr.h"
#include "native/linalg_lstsq.h"

namespace ocl {
namespace {

using at::Tensor;

// Given in `rcond`, which the driver gels does not use: matrices of lower rank are not an error.
constexpr double kAnyRank = -1;

// Replaces b by the least squares (or least norm) solution for matrices of full rank. If a has more
// rows than columns, the rows of b after the solution hold the residual's components. `infos`: for
// each matrix the number, from 1, of the first zero on the triangle's diagonal.
void lstsq(const Tensor& a_any, Tensor& b_any, Tensor& /*rank*/, Tensor& /*singular_values*/,
           Tensor& infos, double rcond, std::string /*driver*/) {
  infos.zero_();
  if (a_any.numel() == 0 || b_any.numel() == 0) return;
  check_device_has(ocl_device(a_any), a_any.scalar_type(), "lstsq");
  std::vector<int64_t> sizes(b_any.sizes().begin(), b_any.sizes().end() - 2);
  const int64_t m = a_any.size(-2), n = a_any.size(-1), count = std::min(m, n);
  sizes.insert(sizes.end(), {m, n});
  const Tensor b = matrices(b_any), given = a_any.expand(sizes).reshape({b.size(0), m, n});
  const Tensor a = empty_matrices(b.size(0), std::max(m, n), count, a_any.options()),
               tau = at::empty({b.size(0), count}, a_any.options());
  a.copy_(m < n ? given.mH() : given);
  factor_qr(a, tau);
  const Tensor triangle = a.narrow(1, 0, count), solution = b.narrow(1, 0, count);
  if (m < n) {  // a^H = Q R
    solve_triangular(triangle.mT(), solution, {.upper = false, .conjugate = true});
    Tensor(b.narrow(1, m, n - m)).zero_();
    apply_q(a, tau, b, /*adjoint=*/false);
  } else {
    apply_q(a, tau, b, /*adjoint=*/true);
    solve_triangular(triangle, solution, {.upper = true});
  }
  if (rcond == kAnyRank) return;
  const Tensor zeros = triangle.diagonal(0, -2, -1).eq(0);
  // LAPACK's solution for a matrix of zeros is 0.
  const Tensor nothing = zeros.all(-1).logical_and_(given.eq(0).flatten(1).all(-1));
  b.masked_fill_(nothing.view({-1, 1, 1}), 0);
  const Tensor missing = zeros.logical_and(nothing.logical_not().unsqueeze(-1)).to(at::kInt);
  Tensor numbers = missing.argmax(-1).add(1).mul(missing.amax(-1));
  // The rows of each matrix; b may have more.
  numbers = numbers.view(b_any.sizes().slice(0, b_any.dim() - 2));
  while (numbers.dim() > a_any.dim() - 2) numbers = numbers.select(0, 0);
  for (int64_t d = 0; d < numbers.dim(); ++d) numbers = numbers.narrow(d, 0, a_any.size(d));
  infos.copy_(numbers.reshape(infos.sizes()));
}

double default_rcond(const Tensor& a) {
  const double epsilon = is_double(a.scalar_type()) ? std::numeric_limits<double>::epsilon()
                                                    : std::numeric_limits<float>::epsilon();
  return epsilon * static_cast<double>(std::max(a.size(-2), a.size(-1)));
}

}  // namespace

namespace native {

// PyTorch supports drivers other than gels only for CPU tensors. They accept matrices of any rank.
// PyTorch's implementation checks the arguments and computes the residuals; the solution comes from
// singular values.
OCL_NATIVE("linalg_lstsq.out", lstsq_out);
OCL_COMPLEX("linalg_lstsq.out");
std::tuple<Tensor&, Tensor&, Tensor&, Tensor&> lstsq_out(const Tensor& self, const Tensor& b,
                                                         std::optional<double> rcond,
                                                         std::optional<std::string_view> driver,
                                                         Tensor& solution, Tensor& residuals,
                                                         Tensor& rank, Tensor& singular_values) {
  const std::string_view name = driver.value_or("gelsy");
  TORCH_CHECK(
      name == "gels" || name == "gelsy" || name == "gelsd" || name == "gelss",
      "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)");
  static constexpr const char* kName = "torch.linalg.lstsq";
  const ScalarType real = c10::toRealValueType(self.scalar_type());
  at::native::checkLinalgCompatibleDtype(kName, rank.scalar_type(), at::kLong, "rank");
  at::native::checkLinalgCompatibleDtype(kName, singular_values.scalar_type(), real,
                                         "singular_values");
  // Temporary results have their own types, because the given outputs may have others.
  Tensor no_rank = at::empty({0}, self.options().dtype(at::kLong)),
         no_values = at::empty({0}, self.options().dtype(real));
  at::native::linalg_lstsq_out(self, b, name == "gels" ? std::nullopt : std::optional(kAnyRank),
                               "gels", solution, residuals, no_rank, no_values);
  at::native::resize_output(rank, {0});
  at::native::resize_output(singular_values, {0});
  if (name == "gels") return {solution, residuals, rank, singular_values};
  const auto batch = self.sizes().slice(0, self.dim() - 2);
  at::native::resize_output(rank, batch);
  rank.zero_();
  if (name == "gelsy") {
    residuals.resize_({0});
  } else {
    std::vector<int64_t> sizes(batch.begin(), batch.end());
    sizes.push_back(std::min(self.size(-2), self.size(-1)));
    at::native::resize_output(singular_values, sizes);
  }
  if (self.numel() == 0 || b.numel() == 0) return {solution, residuals, rank, singular_values};
  const auto [u, s, vh] = at::_linalg_svd(self, /*full_matrices=*/false, /*compute_uv=*/true);
  const Tensor counts = s.gt(s.narrow(-1, 0, 1).mul(rcond.value_or(default_rcond(self))));
  const bool vector = at::native::linalg_solve_is_vector_rhs(self, b);
  const Tensor right = vector ? b.unsqueeze(-1) : b;
  const Tensor parts = at::matmul(u.mH(), right);
  const Tensor scaled = at::where(counts.unsqueeze(-1), parts.div(s.unsqueeze(-1)), 0);
  const Tensor result = at::matmul(vh.mH(), scaled);
  solution.copy_(vector ? result.squeeze(-1) : result);
  rank.copy_(counts.sum(-1));
  if (name == "gelsy") return {solution, residuals, rank, singular_values};
  if (!rank.eq(self.size(-1)).all().item<bool>()) residuals.resize_({0});
  singular_values.copy_(s);
  return {solution, residuals, rank, singular_values};
}

}  // namespace native
}  // namespace ocl

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(lstsq_stub, &ocl::lstsq)

}  // namespace at::native
