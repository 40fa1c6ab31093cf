// Forward-mode derivatives of the fused cells, for which PyTorch has none. If an argument has a
// tangent, the cell is computed by separate operators, as PyTorch does on other devices.
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/cat.h>
#include <torch/library.h>

#include <algorithm>

namespace ocl {
namespace {

using at::Tensor;
using torch::jit::Stack;

Tensor sum(const Tensor& gates, const c10::IValue& bias) {
  return bias.isTensor() && bias.toTensor().defined() ? gates + bias.toTensor() : gates;
}

void lstm_cell(at::ArrayRef<c10::IValue> inputs, Stack* results) {
  const Tensor gates = sum(inputs[0].toTensor(), inputs[3]) + sum(inputs[1].toTensor(), inputs[4]);
  const auto parts = gates.chunk(4, 1);
  const Tensor in = parts[0].sigmoid(), forget = parts[1].sigmoid(), cell = parts[2].tanh(),
               out = parts[3].sigmoid();
  const Tensor cy = forget * inputs[2].toTensor() + in * cell;
  torch::jit::push(results, out * cy.tanh(), cy, at::cat({in, forget, cell, out}, 1));
}

void gru_cell(at::ArrayRef<c10::IValue> inputs, Stack* results) {
  const auto from_input = sum(inputs[0].toTensor(), inputs[3]).chunk(3, 1),
             from_hidden = sum(inputs[1].toTensor(), inputs[4]).chunk(3, 1);
  const Tensor& hx = inputs[2].toTensor();
  const Tensor reset = (from_input[0] + from_hidden[0]).sigmoid(),
               update = (from_input[1] + from_hidden[1]).sigmoid(),
               candidate = (from_input[2] + from_hidden[2] * reset).tanh();
  torch::jit::push(results, (hx - candidate) * update + candidate,
                   at::cat({reset, update, candidate, hx, from_hidden[2]}, 1));
}

bool has_tangent(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() &&
         value.toTensor()._fw_grad(/*level=*/0).defined();
}

template <void (*kCell)(at::ArrayRef<c10::IValue>, Stack*)>
void differentiate(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const auto inputs = torch::jit::last(*stack, count);
  if (std::any_of(inputs.begin(), inputs.end(), has_tangent)) {
    Stack results;
    kCell(inputs, &results);
    torch::jit::drop(*stack, count);
    for (c10::IValue& result : results) stack->push_back(std::move(result));
    return;
  }
  // PyTorch's kernel, which is the same for all devices. Looked up only once, because PyTorch
  // records each look-up without a lock.
  static const c10::SafeKernelFunction kernel =
      op.getComputedKernelForDispatchKey(c10::DispatchKey::AutogradCPU);
  kernel.callBoxed(op, keys, stack);
}

template <void (*kCell)(at::ArrayRef<c10::IValue>, Stack*)>
torch::CppFunction kernel() {
  return torch::CppFunction::makeFromBoxedFunction<&differentiate<kCell>>();
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", kernel<&lstm_cell>());
  m.impl("_thnn_fused_gru_cell", kernel<&gru_cell>());
}

}  // namespace
}  // namespace ocl
