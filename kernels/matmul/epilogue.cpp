#include "kernels/matmul/epilogue.h"

#include "kernels/core/tensors.h"
#include "kernels/pointwise/expression.h"

namespace ocl {
namespace {

// Indexed by activation, and by whether there is a residual.
constexpr PointwiseOp kFinish[][2] = {
    {{"epilogue", "a"}, {"epilogue_add", "a + b"}},
    {{"epilogue_relu", "MAX(a, C(0))"}, {"epilogue_add_relu", "MAX(a + b, C(0))"}},
    {{"epilogue_gelu", "gelu(a)"}, {"epilogue_add_gelu", "gelu(a + b)"}},
    {{"epilogue_gelu_tanh", "gelu_tanh(a)"}, {"epilogue_add_gelu_tanh", "gelu_tanh(a + b)"}},
    {{"epilogue_silu", "a * sigmoid(a)"}, {"epilogue_add_silu", "(a + b) * sigmoid(a + b)"}},
    {{"epilogue_sigmoid", "sigmoid(a)"}, {"epilogue_add_sigmoid", "sigmoid(a + b)"}},
    {{"epilogue_tanh", "tanh(a)"}, {"epilogue_add_tanh", "tanh(a + b)"}},
};

}  // namespace

BufferView Epilogue::residual_or(const at::Tensor& other) const {
  return view(residual.defined() ? residual : other);
}

int64_t Epilogue::residual_stride(int64_t dim) const {
  return residual.defined() ? residual.stride(dim) : 0;
}

void Epilogue::define(Defines& defines) const {
  defines.set("ACTIVATION", static_cast<int64_t>(activation))
      .set("HAS_RESIDUAL", residual.defined());
}

bool is_costly(Activation activation) { return activation > Activation::kRelu; }

void apply_epilogue(const Epilogue& epilogue, const at::Tensor& sums, const at::Tensor& out) {
  const bool has_residual = epilogue.residual.defined();
  if (epilogue.is_empty() && out.is_same(sums)) return;
  const PointwiseOp& op = kFinish[static_cast<size_t>(epilogue.activation)][has_residual];
  const ScalarType compute = compute_type(sums.scalar_type());
  if (has_residual) {
    evaluate(op, out, {sums, epilogue.residual}, compute);
  } else {
    evaluate(op, out, {sums}, compute);
  }
}

}  // namespace ocl
