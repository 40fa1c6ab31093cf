// Products of float8 matrices with scales. bfloat16 holds each number of float8 exactly, and the
// sums are float32.
#include <ATen/BlasBackend.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>

#include "kernels/core/operators/registration.h"
#include "kernels/core/types/float8.h"
#include "kernels/matmul/gemm.h"
#include "native/scaled_mm.h"

namespace ocl {
namespace {

using at::Tensor;
using at::blas::ScalingType;
using MaybeTensor = std::optional<Tensor>;
using MaybeType = std::optional<ScalarType>;

void check_matrices(const Tensor& a, const Tensor& b) {
  TORCH_CHECK(a.dim() == 2, "mat_a must be a matrix");
  TORCH_CHECK(b.dim() == 2, "mat_b must be a matrix");
  TORCH_CHECK(a.size(1) == b.size(0), "mat_a and mat_b shapes cannot be multiplied (", a.size(0),
              "x", a.size(1), " and ", b.size(0), "x", b.size(1), ")");
}

bool is_one_scale(const Tensor& scale) {
  return scale.scalar_type() == ScalarType::Float && scale.numel() == 1;
}
bool are_scales(const Tensor& scale, int64_t rows, int64_t columns) {
  return scale.scalar_type() == ScalarType::Float && scale.is_contiguous() &&
         scale.sizes() == at::IntArrayRef{rows, columns};
}

// One scale for each matrix, or one for each row of `a` and each column of `b`.
void check_scales(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b) {
  const bool by_rows = are_scales(scale_a, a.size(0), 1) && are_scales(scale_b, 1, b.size(1));
  TORCH_CHECK_VALUE(
      is_float8(a.scalar_type()) && is_float8(b.scalar_type()) &&
          (by_rows || (is_one_scale(scale_a) && is_one_scale(scale_b))),
      "Invalid scaling configuration: expected float8 matrices, and float32 scales that have one "
      "element each or the shapes [",
      a.size(0), ", 1] and [1, ", b.size(1), "], contiguous. Got ", a.scalar_type(), " and ",
      b.scalar_type(), ", scales of type ", scale_a.scalar_type(), " ", scale_a.sizes(), " and ",
      scale_b.scalar_type(), " ", scale_b.sizes());
}

void check_recipes(at::TensorList scales, at::IntArrayRef recipes, at::IntArrayRef swizzles) {
  const bool known = recipes.size() == 1 && scales.size() == 1 &&
                     (recipes[0] == static_cast<int64_t>(ScalingType::TensorWise) ||
                      recipes[0] == static_cast<int64_t>(ScalingType::RowWise));
  TORCH_CHECK_VALUE(known,
                    "Invalid scaling configuration: expected ScalingType.TensorWise or "
                    "ScalingType.RowWise, with one tensor of scales for each matrix");
  for (const int64_t swizzle : swizzles) {
    TORCH_CHECK_VALUE(swizzle == static_cast<int64_t>(at::blas::SwizzleType::NO_SWIZZLE),
                      "ocl does not support swizzled scales");
  }
}

Tensor& multiply(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                 const MaybeTensor& bias, const MaybeTensor& scale_result, Tensor& out) {
  check_matrices(a, b);
  check_scales(a, b, scale_a, scale_b);
  TORCH_CHECK(!scale_result || is_one_scale(*scale_result), "scale_result must be a float scalar");
  TORCH_CHECK(!bias || bias->numel() == b.size(1), "Bias must be size ", b.size(1), " but got ",
              bias->numel());
  at::native::resize_output(out, {a.size(0), b.size(1)});
  Tensor sums = at::empty(out.sizes(), a.options().dtype(ScalarType::Float));
  gemm(sums, a.to(ScalarType::BFloat16), b.to(ScalarType::BFloat16), 1, {}, 0);
  sums.mul_(scale_a).mul_(scale_b);
  if (bias) sums.add_(bias->reshape({-1}));
  if (scale_result && is_float8(out.scalar_type())) sums.div_(*scale_result);
  return out.copy_(sums);
}

}  // namespace

namespace native {

OCL_FLOAT8("_scaled_mm, _scaled_mm_v2");

OCL_NATIVE("_scaled_mm.out", scaled_mm_out);
Tensor& scaled_mm_out(const Tensor& self, const Tensor& mat2, const Tensor& scale_a,
                      const Tensor& scale_b, const MaybeTensor& bias,
                      const MaybeTensor& scale_result, MaybeType out_dtype,
                      [[maybe_unused]] bool use_fast_accum, Tensor& out) {
  TORCH_CHECK_VALUE(!out_dtype || *out_dtype == out.scalar_type(),
                    "out_dtype must match output matrix type");
  return multiply(self, mat2, scale_a, scale_b, bias, scale_result, out);
}

OCL_NATIVE("_scaled_mm", scaled_mm);
Tensor scaled_mm(const Tensor& self, const Tensor& mat2, const Tensor& scale_a,
                 const Tensor& scale_b, const MaybeTensor& bias, const MaybeTensor& scale_result,
                 MaybeType out_dtype, bool use_fast_accum) {
  Tensor out = at::empty({0}, self.options().dtype(out_dtype.value_or(self.scalar_type())));
  return scaled_mm_out(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum,
                       out);
}

OCL_NATIVE("_scaled_mm_v2.out", scaled_mm_v2_out);
Tensor& scaled_mm_v2_out(const Tensor& self, const Tensor& mat2, at::TensorList scale_a,
                         at::IntArrayRef recipe_a, at::IntArrayRef swizzle_a,
                         at::TensorList scale_b, at::IntArrayRef recipe_b,
                         at::IntArrayRef swizzle_b, const MaybeTensor& bias, MaybeType out_dtype,
                         [[maybe_unused]] at::IntArrayRef contraction_dim,
                         [[maybe_unused]] bool use_fast_accum, Tensor& out) {
  check_recipes(scale_a, recipe_a, swizzle_a);
  check_recipes(scale_b, recipe_b, swizzle_b);
  TORCH_CHECK_VALUE(!out_dtype || *out_dtype == out.scalar_type(),
                    "out_dtype must match output matrix type");
  return multiply(self, mat2, scale_a[0], scale_b[0], bias, {}, out);
}

OCL_NATIVE("_scaled_mm_v2", scaled_mm_v2);
Tensor scaled_mm_v2(const Tensor& self, const Tensor& mat2, at::TensorList scale_a,
                    at::IntArrayRef recipe_a, at::IntArrayRef swizzle_a, at::TensorList scale_b,
                    at::IntArrayRef recipe_b, at::IntArrayRef swizzle_b, const MaybeTensor& bias,
                    MaybeType out_dtype, at::IntArrayRef contraction_dim, bool use_fast_accum) {
  Tensor out = at::empty({0}, self.options().dtype(out_dtype.value_or(ScalarType::BFloat16)));
  return scaled_mm_v2_out(self, mat2, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b,
                          bias, out_dtype, contraction_dim, use_fast_accum, out);
}

}  // namespace native
}  // namespace ocl
