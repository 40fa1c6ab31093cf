// The epilogue of a matrix product or convolution: an element-wise step that its kernel applies to
// the sums as it stores them.
//
//   out = activation(sums + residual)
//
// epilogue_table.h has the activations, epilogue.clh is the code in the kernels.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "kernels/core/types/dtype.h"

namespace ocl {

enum class Activation : uint8_t {
#define OCL_ACTIVATION(id, ...) id,
#include "kernels/matmul/epilogue_table.h"
#undef OCL_ACTIVATION
};
inline constexpr std::string_view kActivationNames[] = {
#define OCL_ACTIVATION(id, name, ...) name,
#include "kernels/matmul/epilogue_table.h"
#undef OCL_ACTIVATION
};

// The parameters of an epilogue's code: a field of kernels' structs (backend/launch/launch.h).
struct EpilogueCode {
  Activation activation;
  bool has_residual;

  void define(Defines& defines) const;
};

struct Epilogue {
  Activation activation = Activation::kNone;
  at::Tensor residual;  // undefined, or has the result's shape and type

  bool is_empty() const { return activation == Activation::kNone && !residual.defined(); }
  EpilogueCode code() const { return {activation, residual.defined()}; }
  // The residual as a kernel argument; without a residual `other`, which the kernel does not read.
  BufferView residual_or(const at::Tensor& other) const;
  int64_t residual_stride(int64_t dim) const;  // 0 without a residual
  void define(Defines& defines) const { code().define(defines); }
};

bool is_costly(Activation activation);

// Applies the epilogue in an element-wise kernel of its own, after a kernel that cannot fuse it.
// `out` may be `sums`, and may have another type.
void apply_epilogue(const Epilogue& epilogue, const at::Tensor& sums, const at::Tensor& out);

}  // namespace ocl
