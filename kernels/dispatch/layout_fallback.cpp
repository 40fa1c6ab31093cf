// The fallback for sparse, quantized and nested tensors, which are made of several tensors, and so
// are copied instead of mapped.
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_quantized.h>
#include <ATen/quantized/Quantizer.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "kernels/core/operators/boxed.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/dispatch/fallback.h"

namespace ocl {
namespace {

struct Pair {
  at::Tensor ocl, cpu;
};

void write_back(const Pair& pair) {
  if (pair.ocl.is_quantized() && pair.ocl.sizes() != pair.cpu.sizes()) {
    const at::Tensor moved = pair.cpu.to(pair.ocl.device());
    pair.ocl.set_(moved.storage(), moved.storage_offset(), moved.sizes(), moved.strides());
    return;
  }
  if (pair.ocl.layout() == c10::kStrided && !pair.ocl.is_quantized() &&
      pair.ocl.sizes() != pair.cpu.sizes()) {
    pair.ocl.resize_(pair.cpu.sizes());
  }
  if (at::sparse_csr::is_sparse_compressed(pair.ocl)) {  // its number of entries may have changed
    pair.ocl.resize_as_sparse_(pair.cpu.to(pair.ocl.device()));
  }
  pair.ocl.copy_(pair.cpu);
}

// A result without a quantizer has no elements yet.
at::Tensor on_cpu(const at::Tensor& tensor) {
  const bool unset = tensor.is_quantized() &&
                     dynamic_cast<at::UnknownQuantizer*>(tensor.quantizer().get()) != nullptr;
  return unset ? at::empty(tensor.sizes(), tensor.options().device(at::kCPU)) : tensor.cpu();
}

// Copies with the same strides, which to() does not keep for quantized tensors.
at::Tensor on_device(const at::Tensor& result, c10::Device device) {
  if (!result.is_quantized() || result.is_contiguous() ||
      result.qscheme() != at::kPerTensorAffine) {
    return result.to(device);
  }
  const at::Tensor moved =
      at::empty_quantized(result.sizes(), result, result.options().device(device));
  moved.as_strided_(result.sizes(), result.strides());
  moved.copy_(result);
  return moved;
}

}  // namespace

void layout_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  note_fallback(op, *stack);
  const c10::FunctionSchema& schema = op.schema();
  const size_t count = schema.arguments().size(), begin = stack->size() - count;
  std::optional<c10::Device> device;
  std::vector<Pair> copied, written;
  for (size_t i = 0; i < count; ++i) {
    c10::IValue& value = (*stack)[begin + i];
    const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
    value = replace_tensors(value, [&](const at::Tensor& tensor) {
      if (!on_ocl(tensor)) return tensor;
      device = tensor.device();
      // A tensor that is passed twice becomes one CPU tensor, because some operators check this.
      const auto known =
          std::ranges::find_if(copied, [&](const Pair& pair) { return pair.ocl.is_same(tensor); });
      const at::Tensor copy = known == copied.end() ? on_cpu(tensor) : known->cpu;
      if (known == copied.end()) copied.push_back({tensor, copy});
      // _sparse_mm_reduce_impl checks this to know what its backward pass needs.
      if (tensor.requires_grad()) copy.set_requires_grad(true);
      if (alias && alias->isWrite()) written.push_back({tensor, copy});
      return copy;
    });
    if (value.isDevice() && value.toDevice().is_privateuseone()) {
      device = value.toDevice();
      value = c10::Device(at::kCPU);
    }
  }
  op.callBoxed(stack);
  for (const Pair& pair : written) write_back(pair);
  for (size_t i = stack->size() - schema.returns().size(); i < stack->size(); ++i) {
    (*stack)[i] = replace_tensors((*stack)[i], [&](const at::Tensor& result) {
      for (const Pair& pair : written) {
        if (pair.cpu.is_same(result)) return pair.ocl;
      }
      return result.defined() && device ? on_device(result, *device) : result;
    });
  }
}

namespace {

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&layout_fallback>());
}
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&layout_fallback>());
}
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&layout_fallback>());
}
TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&layout_fallback>());
}

}  // namespace
}  // namespace ocl
