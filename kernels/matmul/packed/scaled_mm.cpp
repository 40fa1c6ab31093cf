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

// One scale for each matrix, or one for each row of `a` and each column of `b`. `recipe`: which of
// these the caller asked for, if it did.
void check_scales(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                  std::optional<ScalingType> recipe) {
  const bool whole =
      recipe != ScalingType::RowWise && is_one_scale(scale_a) && is_one_scale(scale_b);
  const bool by_rows = recipe != ScalingType::TensorWise && are_scales(scale_a, a.size(0), 1) &&
                       are_scales(scale_b, 1, b.size(1));
  TORCH_CHECK_VALUE(
      is_float8(a.scalar_type()) && is_float8(b.scalar_type()) && (whole || by_rows),
      "Invalid scaling configuration: expected float8 matrices, and float32 scales that have one "
      "element each or the shapes [",
      a.size(0), ", 1] and [1, ", b.size(1), "], contiguous. Got ", a.scalar_type(), " and ",
      b.scalar_type(), ", scales of type ", scale_a.scalar_type(), " ", scale_a.sizes(), " and ",
      scale_b.scalar_type(), " ", scale_b.sizes());
}

ScalingType recipe_of(at::IntArrayRef recipes, at::IntArrayRef swizzles, at::TensorList scales) {
  TORCH_CHECK_VALUE(recipes.size() == 1 && scales.size() == 1 &&
                        (recipes[0] == static_cast<int64_t>(ScalingType::TensorWise) ||
                         recipes[0] == static_cast<int64_t>(ScalingType::RowWise)),
                    "Invalid scaling configuration: expected ScalingType.TensorWise or "
                    "ScalingType.RowWise, with one tensor of scales for each matrix");
  for (const int64_t swizzle : swizzles) {
    TORCH_CHECK_VALUE(swizzle == static_cast<int64_t>(at::blas::SwizzleType::NO_SWIZZLE),
                      "ocl does not support swizzled scales");
  }
  return static_cast<ScalingType>(recipes[0]);
}

// A factor of the sums: a number, or one for each row or column.
Tensor factor(const Tensor& scale) { return scale.numel() == 1 ? scale.reshape({}) : scale; }

Tensor& multiply(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                 const MaybeTensor& bias, const MaybeTensor& scale_result, Tensor& out) {
  TORCH_CHECK(!scale_result || is_one_scale(*scale_result), "scale_result must be a float scalar");
  TORCH_CHECK(!bias || bias->numel() == b.size(1), "Bias must be size ", b.size(1), " but got ",
              bias->numel());
  const Tensor sums = at::empty({a.size(0), b.size(1)}, a.options().dtype(ScalarType::Float));
  gemm(sums, a.to(ScalarType::BFloat16), b.to(ScalarType::BFloat16), 1, {}, 0);
  if (a.size(1) > 0) sums.mul_(factor(scale_a)).mul_(factor(scale_b));
  if (bias) sums.add_(bias->reshape({-1}));
  if (scale_result && is_float8(out.scalar_type())) sums.div_(factor(*scale_result));
  at::native::resize_output(out, sums.sizes());
  return out.copy_(sums);
}

Tensor empty_result(const Tensor& a, ScalarType type) {
  return at::empty({0}, a.options().dtype(type));
}

void check_type(const Tensor& out, MaybeType type) {
  TORCH_CHECK_VALUE(!type || *type == out.scalar_type(), "out_dtype must match output matrix type");
}

// Releases of PyTorch have several kinds of lists of tensors.
template <typename List>
std::vector<Tensor> tensors_of(const List& list) {
  return {list.begin(), list.end()};
}

Tensor multiply_by_recipes(const Tensor& a, const Tensor& b, at::TensorList scale_a,
                           at::IntArrayRef recipe_a, at::IntArrayRef swizzle_a,
                           at::TensorList scale_b, at::IntArrayRef recipe_b,
                           at::IntArrayRef swizzle_b, const MaybeTensor& bias, MaybeType type,
                           Tensor out) {
  check_matrices(a, b);
  const ScalingType recipe = recipe_of(recipe_a, swizzle_a, scale_a);
  TORCH_CHECK_VALUE(recipe_of(recipe_b, swizzle_b, scale_b) == recipe,
                    "Invalid scaling configuration: both matrices need the same ScalingType");
  check_scales(a, b, scale_a[0], scale_b[0], recipe);
  TORCH_CHECK_VALUE(!bias || c10::isReducedFloatingType(bias->scalar_type()) ||
                        bias->scalar_type() == ScalarType::Float,
                    "Bias must be float32, bfloat16 or float16, but got ", bias->scalar_type());
  check_type(out, type);
  return multiply(a, b, scale_a[0], scale_b[0], bias, {}, out);
}

}  // namespace

namespace native {

OCL_FLOAT8("_scaled_mm, _scaled_mm_v2");

OCL_NATIVE("_scaled_mm.out", scaled_mm_out);
Tensor& scaled_mm_out(const Tensor& self, const Tensor& mat2, const Tensor& scale_a,
                      const Tensor& scale_b, const MaybeTensor& bias,
                      const MaybeTensor& scale_result, MaybeType out_dtype,
                      [[maybe_unused]] bool use_fast_accum, Tensor& out) {
  check_type(out, out_dtype);
  check_matrices(self, mat2);
  check_scales(self, mat2, scale_a, scale_b, {});
  return multiply(self, mat2, scale_a, scale_b, bias, scale_result, out);
}

OCL_NATIVE("_scaled_mm", scaled_mm);
Tensor scaled_mm(const Tensor& self, const Tensor& mat2, const Tensor& scale_a,
                 const Tensor& scale_b, const MaybeTensor& bias, const MaybeTensor& scale_result,
                 MaybeType out_dtype, bool use_fast_accum) {
  Tensor out = empty_result(self, out_dtype.value_or(self.scalar_type()));
  return scaled_mm_out(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum,
                       out);
}

OCL_NATIVE_AS("_scaled_mm_v2", scaled_mm_v2,
              multiply_by_recipes(self, mat2, tensors_of(scale_a), recipe_a, swizzle_a,
                                  tensors_of(scale_b), recipe_b, swizzle_b, bias, out_dtype,
                                  empty_result(self, out_dtype.value_or(ScalarType::BFloat16))))
OCL_NATIVE_AS("_scaled_mm_v2.out", scaled_mm_v2_out,
              (multiply_by_recipes(self, mat2, tensors_of(scale_a), recipe_a, swizzle_a,
                                   tensors_of(scale_b), recipe_b, swizzle_b, bias, out_dtype, out),
               out))

}  // namespace native
}  // namespace ocl
