// x times the transposed of weights of 8 or 4 bits: what weight-only quantization is made of.
#pragma once

#include <ATen/core/Tensor.h>

namespace ocl {

// What a number q of a group of weights stands for; the values are those of cl/packed_weights.clh.
enum class PackedZeros : uint8_t {
  kNone,     // q * scale
  kFloat,    // (q - 8) * scale + zero
  kInteger,  // (q - zero) * scale
};

// Weights [n][k], row by row.
struct PackedWeights {
  at::Tensor numbers;        // int8 [n][k], or uint8 [n][k / 2] with two to a byte
  bool first_upper = false;  // of two to a byte
  PackedZeros zeros_are = PackedZeros::kNone;
  int64_t group;          // weights of a row that share scale and zero; k where zeros are kNone
  at::Tensor scales;      // [n]; [k / group][n][2], a zero behind each; [k / group][n]
  at::Tensor zeros = {};  // int8 [k / group][n] where they are kInteger

  int64_t bits() const { return numbers.scalar_type() == at::kChar ? 8 : 4; }
  int64_t rows() const { return numbers.size(0); }
  int64_t width() const { return numbers.size(1) * 8 / bits(); }
};

// x [m][k] floating-point; the result, [m][n], has its type.
at::Tensor packed_linear(const at::Tensor& x, const PackedWeights& weights);

}  // namespace ocl
