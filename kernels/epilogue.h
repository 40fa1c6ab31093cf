// What follows the sums of a matrix product or convolution, and is done where its kernels store
// them:
//
//   out = activation(sums + residual)
//
// cl/epilogue.clh is the kernels' side of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <string_view>

#include "kernels/dtype.h"

namespace ocl {

// As the kernels number them.
enum class Activation : uint8_t { kNone, kRelu, kGelu, kGeluTanh, kSilu, kSigmoid, kTanh };
inline constexpr std::array<std::string_view, 7> kActivationNames{
    "none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh"};

struct Epilogue {
  Activation activation = Activation::kNone;
  at::Tensor residual;  // undefined, or of the result's shape and type

  bool is_empty() const { return activation == Activation::kNone && !residual.defined(); }
  // Tells kernels apart, in the lowest four bits.
  uint64_t flags() const {
    return uint64_t{static_cast<uint8_t>(activation)} << 1 | uint64_t{residual.defined()};
  }
  // The kernel's argument, which is not read where there is no residual.
  BufferView residual_or(const at::Tensor& other) const;
  int64_t residual_stride(int64_t dim) const;  // 0 where there is none
  void define(Defines& defines) const;
};

// Functions of numbers that are compiled to many instructions, for floats only.
bool is_costly(Activation activation);

// The same by one element-wise kernel, for what has no such kernel. `out` may be `sums`, and of
// another type.
void apply_epilogue(const Epilogue& epilogue, const at::Tensor& sums, const at::Tensor& out);

}  // namespace ocl
