// Operators that are made of other operators of ours.
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Cross.h>
#include <ATen/native/Normalization.h>
#include <ATen/native/ReduceOps.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/roll_native.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/where.h>

#include "kernels/expression.h"
#include "kernels/registration.h"
#include "native_functions.h"

namespace ocl {
namespace {

constexpr PointwiseOp kRenorm{"renorm", "a > C(s0) ? C(s0) / (a + L(1e-7)) : C(1)"};
constexpr PointwiseOp kCross{"cross", "a * b - c * d", "c_mul(a, b) - c_mul(c, d)"};

void renorm_scale_factor(at::TensorIteratorBase& iter, double maxnorm) {
  pointwise(iter, kRenorm, {maxnorm});
}

void cross(const at::Tensor& result, const at::Tensor& a, const at::Tensor& b, const int64_t dim) {
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t j = (i + 1) % 3, k = (i + 2) % 3;
    evaluate(kCross, result.select(dim, i),
             {a.select(dim, j), b.select(dim, k), a.select(dim, k), b.select(dim, j)},
             compute_type(result.scalar_type()));
  }
}

void aminmax(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& min, at::Tensor& max) {
  at::amin_out(min, self, dim, keepdim);
  at::amax_out(max, self, dim, keepdim);
}

void aminmax_allreduce(const at::Tensor& self, at::Tensor& min, at::Tensor& max) {
  at::amin_out(min, self, {}, false);
  at::amax_out(max, self, {}, false);
}

// Values and indices along a dimension, which is kept. With `skip_nan` of the numbers only; else
// the first NaN where there is one, as a stable sort leaves it behind the numbers.
std::pair<at::Tensor, at::Tensor> medians(const at::Tensor& self, int64_t dim, bool skip_nan) {
  const auto [sorted, order] = at::sort(self, /*stable=*/true, dim, /*descending=*/false);
  const int64_t size = self.size(dim);
  if (!self.is_floating_point()) {
    return {sorted.narrow(dim, (size - 1) / 2, 1), order.narrow(dim, (size - 1) / 2, 1)};
  }
  const at::Tensor numbers = at::isnan(self).sum(dim, /*keepdim=*/true).neg().add(size);
  at::Tensor position = numbers.sub(1).clamp_min(0).floor_divide(2);
  if (!skip_nan) position = at::where(numbers.eq(size), position, numbers);
  return {sorted.gather(dim, position), order.gather(dim, position)};
}

at::Tensor median_of_all(const at::Tensor& self, bool skip_nan) {
  if (self.numel() == 0) {
    return at::full({}, std::numeric_limits<float>::quiet_NaN()).to(self.options());
  }
  return medians(self.reshape({-1}), 0, skip_nan).first.reshape({});
}

std::tuple<at::Tensor&, at::Tensor&> median_out(const char* op, const at::Tensor& self, int64_t dim,
                                                bool keepdim, at::Tensor& values,
                                                at::Tensor& indices, bool skip_nan) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (self.dim() > 0) at::native::zero_numel_check_dims(self, dim, op);
  TORCH_CHECK(values.scalar_type() == self.scalar_type(), op, ": expected values of type ",
              self.scalar_type(), " but got ", values.scalar_type());
  TORCH_CHECK(indices.scalar_type() == ScalarType::Long, op,
              ": expected indices of type Long but got ", indices.scalar_type());
  at::DimVector shape(self.sizes());
  if (self.dim() > 0) {
    shape[dim] = 1;
    if (!keepdim) shape.erase(shape.begin() + dim);
  }
  values.resize_(shape);
  indices.resize_(shape);
  if (values.numel() == 0) return {values, indices};
  if (self.dim() == 0) {
    values.copy_(self);
    indices.zero_();
    return {values, indices};
  }
  const auto [all_values, all_indices] = medians(self, dim, skip_nan);
  values.copy_(keepdim ? all_values : all_values.squeeze(dim));
  indices.copy_(keepdim ? all_indices : all_indices.squeeze(dim));
  return {values, indices};
}

}  // namespace

namespace native {

// PyTorch's implementation for the CPU, which is made of views and cat.
OCL_NATIVE("roll", roll);
OCL_COMPLEX("roll");
Tensor roll(const Tensor& self, IntArrayRef shifts, IntArrayRef dims) {
  return at::native::roll(self, shifts, dims);
}

OCL_NATIVE("eye.m_out", eye_m_out);
Tensor& eye_m_out(int64_t n, int64_t m, Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
  TORCH_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
  out.resize_({n, m});
  out.zero_();
  out.diagonal().fill_(1);
  return out;
}

OCL_NATIVE("eye.out", eye_out);
Tensor& eye_out(int64_t n, Tensor& out) { return eye_m_out(n, n, out); }

OCL_NATIVE("median", median);
Tensor median(const Tensor& self) { return median_of_all(self, false); }

OCL_NATIVE("nanmedian", nanmedian);
Tensor nanmedian(const Tensor& self) { return median_of_all(self, true); }

OCL_NATIVE("median.dim_values", median_dim_out);
std::tuple<Tensor&, Tensor&> median_dim_out(const Tensor& self, int64_t dim, bool keepdim,
                                            Tensor& values, Tensor& indices) {
  return median_out("median()", self, dim, keepdim, values, indices, false);
}

OCL_NATIVE("nanmedian.dim_values", nanmedian_dim_out);
std::tuple<Tensor&, Tensor&> nanmedian_dim_out(const Tensor& self, int64_t dim, bool keepdim,
                                               Tensor& values, Tensor& indices) {
  return median_out("nanmedian()", self, dim, keepdim, values, indices, true);
}

}  // namespace native
}  // namespace ocl

namespace at::native {

OCL_STUB("renorm.out", renorm_scale_factor_stub, &ocl::renorm_scale_factor)
OCL_STUB("linalg_cross.out", cross_stub, &ocl::cross)
OCL_COMPLEX("linalg_cross.out");
OCL_STUB("aminmax.out,_aminmax", aminmax_stub, &ocl::aminmax)
REGISTER_PRIVATEUSE1_DISPATCH(aminmax_allreduce_stub, &ocl::aminmax_allreduce)

}  // namespace at::native
