// Matrix products with weights of 8 and 4 bits.
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>

#include "kernels/core/operators/registration.h"
#include "kernels/core/types/dtype.h"
#include "kernels/matmul/gemm.h"
#include "kernels/matmul/packed/packed_linear.h"
#include "native/matmul_packed.h"

namespace ocl {
namespace {

using at::Tensor;

// Groups are powers of two, so that they consist of whole vectors.
void check_group(const char* op, int64_t group, int64_t width) {
  TORCH_CHECK(group >= 32 && (group & (group - 1)) == 0 && width % group == 0, op,
              ": qGroupSize must be a power of 2, at least 32, that divides the width ", width,
              ", not ", group);
}

}  // namespace

namespace native {

OCL_NATIVE("_int_mm.out", int_mm_out);
Tensor& int_mm_out(const Tensor& self, const Tensor& mat2, Tensor& out) {
  TORCH_CHECK(self.dim() == 2, "Expected self to be of dimension 2 but got ", self.dim());
  TORCH_CHECK(mat2.dim() == 2, "Expected mat2 to be of dimension 2 but got ", mat2.dim());
  TORCH_CHECK(self.size(1) == mat2.size(0), "self.size(1) needs to match mat2.size(0) but got ",
              self.size(1), " and ", mat2.size(0));
  TORCH_CHECK(self.scalar_type() == ScalarType::Char || self.scalar_type() == ScalarType::Byte,
              "Expected self dtype to be int8 or uint8 but got ", self.scalar_type());
  TORCH_CHECK(mat2.scalar_type() == ScalarType::Char,
              "Expected mat2 dtype to be of type int8 but got ", mat2.scalar_type());
  TORCH_CHECK(out.scalar_type() == ScalarType::Int,
              "Expected result dtype to be of type kInt but got ", out.scalar_type());
  out.resize_({self.size(0), mat2.size(1)});
  if (self.scalar_type() == ScalarType::Char) {
    gemm(out, self, mat2, 1, {}, 0);
  } else {  // uint8 times int8: x b = (x - 128) b + 128 * (sums of columns of b)
    const Tensor less = at::bitwise_xor(self, 128).view(ScalarType::Char);
    gemm(out, less, mat2, 1, at::sum(mat2, 0, /*keepdim=*/false, ScalarType::Int), 128);
  }
  return out;
}

OCL_NATIVE("_int_mm", int_mm);
Tensor int_mm(const Tensor& self, const Tensor& mat2) {
  Tensor out = at::empty({0}, self.options().dtype(ScalarType::Int));
  return int_mm_out(self, mat2, out);
}

OCL_NATIVE("_weight_int8pack_mm", weight_int8pack_mm);
Tensor weight_int8pack_mm(const Tensor& self, const Tensor& mat2, const Tensor& scales) {
  TORCH_CHECK(
      self.dim() == 2 && mat2.dim() == 2 && mat2.scalar_type() == ScalarType::Char &&
          mat2.size(1) == self.size(1),
      "_weight_int8pack_mm: expected a matrix and int8 weights with rows of its width, not ",
      self.sizes(), " and ", mat2.sizes(), " of type ", mat2.scalar_type());
  TORCH_CHECK(scales.dim() == 1 && scales.size(0) == mat2.size(0),
              "_weight_int8pack_mm: expected a scale for each of ", mat2.size(0),
              " rows of weights, not ", scales.sizes());
  return packed_linear(self, {.numbers = mat2, .group = mat2.size(1), .scales = scales});
}

// The result has CUDA's shape, but rows stay in order: two weights per byte, the first in the upper
// half.
OCL_NATIVE("_convert_weight_to_int4pack", convert_weight_to_int4pack);
Tensor convert_weight_to_int4pack(const Tensor& self, int64_t innerKTiles) {
  TORCH_CHECK(self.dim() == 2 && self.scalar_type() == ScalarType::Byte,
              "_convert_weight_to_int4pack: expected a matrix of uint8, not ", self.sizes(),
              " of type ", self.scalar_type());
  TORCH_CHECK(innerKTiles == 2 || innerKTiles == 4 || innerKTiles == 8,
              "_convert_weight_to_int4pack: innerKTiles must be 2, 4 or 8, not ", innerKTiles);
  const int64_t rows = self.size(0), width = self.size(1) * 2;
  TORCH_CHECK(rows % 8 == 0 && width % (innerKTiles * 16) == 0,
              "_convert_weight_to_int4pack: ", rows, " rows of ", width,
              " weights are not a multiple of 8 rows of ", innerKTiles * 16);
  return self.contiguous()
      .clone()
      .view(ScalarType::Int)
      .view({rows / 8, width / (innerKTiles * 16), 32, innerKTiles / 2});
}

OCL_NATIVE("_weight_int4pack_mm", weight_int4pack_mm);
Tensor weight_int4pack_mm(const Tensor& self, const Tensor& mat2, int64_t qGroupSize,
                          const Tensor& qScaleAndZeros) {
  TORCH_CHECK(self.dim() == 2 && mat2.dim() == 4 && mat2.scalar_type() == ScalarType::Int &&
                  mat2.is_contiguous(),
              "_weight_int4pack_mm: expected a matrix and weights of "
              "_convert_weight_to_int4pack, not ",
              self.sizes(), " and ", mat2.sizes(), " of type ", mat2.scalar_type());
  const int64_t rows = mat2.size(0) * 8, width = self.size(1);
  TORCH_CHECK(mat2.numel() * 8 == rows * width, "_weight_int4pack_mm: a matrix of width ", width,
              " for weights of shape ", mat2.sizes());
  check_group("_weight_int4pack_mm", qGroupSize, width);
  const int64_t groups = width / qGroupSize;
  TORCH_CHECK(qScaleAndZeros.dim() == 3 && qScaleAndZeros.size(0) == groups &&
                  qScaleAndZeros.size(1) == rows && qScaleAndZeros.size(2) == 2,
              "_weight_int4pack_mm: expected scales and zeros of shape [", groups, ", ", rows,
              ", 2], not ", qScaleAndZeros.sizes());
  return packed_linear(self, {.numbers = mat2.view({rows, width / 8}).view(ScalarType::Byte),
                              .first_upper = true,
                              .zeros_are = PackedZeros::kFloat,
                              .group = qGroupSize,
                              .scales = qScaleAndZeros});
}

// XPU's layout, in which the first of eight weights is in the lowest bits.
OCL_NATIVE("_weight_int4pack_mm_with_scales_and_zeros", weight_int4pack_mm_with_scales_and_zeros);
Tensor weight_int4pack_mm_with_scales_and_zeros(const Tensor& self, const Tensor& mat2,
                                                int64_t qGroupSize, const Tensor& qScale,
                                                const Tensor& qZeros) {
  const char* const kName = "_weight_int4pack_mm_with_scales_and_zeros";
  TORCH_CHECK(self.dim() == 2 && mat2.dim() == 2 && mat2.scalar_type() == ScalarType::Int &&
                  mat2.is_contiguous() && mat2.size(1) * 8 == self.size(1),
              kName, ": expected a matrix, and weights of its width, eight to an int32, not ",
              self.sizes(), " and ", mat2.sizes(), " of type ", mat2.scalar_type());
  const int64_t rows = mat2.size(0), width = self.size(1);
  check_group(kName, qGroupSize, width);
  const int64_t groups = width / qGroupSize;
  const auto has_shape = [&](const Tensor& t) {
    return t.dim() == 2 && t.size(0) == groups && t.size(1) == rows;
  };
  TORCH_CHECK(has_shape(qScale) && has_shape(qZeros), kName,
              ": expected scales and zeros of shape [", groups, ", ", rows, "], not ",
              qScale.sizes(), " and ", qZeros.sizes());
  TORCH_CHECK(qZeros.scalar_type() == ScalarType::Char, kName, ": expected zeros of int8, not ",
              qZeros.scalar_type());
  return packed_linear(self, {.numbers = mat2.view(ScalarType::Byte),
                              .zeros_are = PackedZeros::kInteger,
                              .group = qGroupSize,
                              .scales = qScale,
                              .zeros = qZeros});
}

}  // namespace native
}  // namespace ocl
