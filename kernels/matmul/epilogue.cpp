#include "kernels/matmul/epilogue.h"

#include "kernels/core/tensors/tensors.h"
#include "kernels/pointwise/expression.h"

namespace ocl {
namespace {

// Indexed by activation.
struct Code {
  bool costly;
  const char* expression;  // an expression in x
};
constexpr Code kCode[] = {
#define X "x"
#define OCL_ACTIVATION(id, name, costly, expression) {costly, expression},
#include "kernels/matmul/epilogue_table.h"
#undef X
#undef OCL_ACTIVATION
};
// The epilogue as a kernel of its own.
constexpr PointwiseOp kFinish[] = {
#define X "a"
#define OCL_ACTIVATION(id, name, costly, expression) \
  {"epilogue_" name, expression, costly ? kFloating : kAnyType},
#include "kernels/matmul/epilogue_table.h"
#undef X
#undef OCL_ACTIVATION
};
constexpr PointwiseOp kFinishSum[] = {
#define X "(a + b)"
#define OCL_ACTIVATION(id, name, costly, expression) \
  {"epilogue_add_" name, expression, costly ? kFloating : kAnyType},
#include "kernels/matmul/epilogue_table.h"
#undef X
#undef OCL_ACTIVATION
};

}  // namespace

BufferView Epilogue::residual_or(const at::Tensor& other) const {
  return view(residual.defined() ? residual : other);
}

int64_t Epilogue::residual_stride(int64_t dim) const {
  return residual.defined() ? residual.stride(dim) : 0;
}

void EpilogueCode::define(Defines& defines) const {
  defines.set("HAS_RESIDUAL", has_residual);
  if (activation == Activation::kNone) return;
  defines.set("ACTIVATION(x)", kCode[static_cast<size_t>(activation)].expression);
  if (is_costly(activation)) defines.set("ACTIVATION_IS_COSTLY", 1);
}

bool is_costly(Activation activation) { return kCode[static_cast<size_t>(activation)].costly; }

void apply_epilogue(const Epilogue& epilogue, const at::Tensor& sums, const at::Tensor& out) {
  const bool has_residual = epilogue.residual.defined();
  if (epilogue.is_empty() && out.is_same(sums)) return;
  const auto row = static_cast<size_t>(epilogue.activation);
  const PointwiseOp& op = has_residual ? kFinishSum[row] : kFinish[row];
  const ScalarType compute = compute_type(sums.scalar_type());
  if (has_residual) {
    evaluate(op, out, {sums, epilogue.residual}, compute);
  } else {
    evaluate(op, out, {sums}, compute);
  }
}

}  // namespace ocl
