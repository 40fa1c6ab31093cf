// Linear layers with weight-only quantization: x times the transpose of weights of 8 or 4 bits.
#pragma once

#include <ATen/core/Tensor.h>

namespace ocl {

// How a stored number q becomes a weight. The enumerators have the numbers of packed_weights.clh.
enum class PackedZeros : uint8_t {
  kNone,     // q * scale
  kFloat,    // (q - 8) * scale + zero
  kInteger,  // (q - zero) * scale
};

// Weights [n][k], stored row by row.
struct PackedWeights {
  at::Tensor numbers;        // int8 [n][k], or uint8 [n][k / 2] with two weights per byte
  bool first_upper = false;  // the first of two weights is the upper half of the byte
  PackedZeros zeros_are = PackedZeros::kNone;
  int64_t group;          // adjacent weights of a row that share scale and zero; kNone: k
  at::Tensor scales;      // kNone [n]; kFloat [k / group][n][scale, zero]; kInteger [k / group][n]
  at::Tensor zeros = {};  // for kInteger: int8 [k / group][n]

  int64_t bits() const { return numbers.scalar_type() == at::kChar ? 8 : 4; }
  int64_t rows() const { return numbers.size(0); }
  int64_t width() const { return numbers.size(1) * 8 / bits(); }
};

// x [m][k] is floating-point; the result [m][n] has its type.
at::Tensor packed_linear(const at::Tensor& x, const PackedWeights& weights);

}  // namespace ocl
