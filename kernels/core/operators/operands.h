// Called before an operator computes with tensors. Checks that each lies within its storage. Notes
// that this thread uses its memory, because this thread must then also raise faults of the thread
// that computed it (backend/queue/fault.h). Generated wrappers call check_operands()
// (codegen/generate.py).
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "backend/base/fault_thread.h"
#include "backend/base/operator_scope.h"

namespace ocl {

// `thread`: the id() of the thread's FaultThread.
void check_operand(const at::TensorBase& tensor, uint64_t thread);

inline void check_operand(const std::optional<at::Tensor>& tensor, uint64_t thread) {
  if (tensor) check_operand(*tensor, thread);
}
inline void check_operand(const at::OptionalTensorRef& tensor, uint64_t thread) {
  if (tensor.has_value()) check_operand(*tensor, thread);
}
inline void check_operand(const c10::List<std::optional<at::Tensor>>& list, uint64_t thread) {
  for (const std::optional<at::Tensor> tensor : list) check_operand(tensor, thread);
}
template <typename List>
requires requires(const List& list) { list.begin(); }
void check_operand(const List& list, uint64_t thread) {
  for (const auto& tensor : list) check_operand(tensor, thread);
}

template <typename... Operands>
void check_operands(const Operands&... operands) {
  const uint64_t thread = fault_thread().id();
  (check_operand(operands, thread), ...);
}

}  // namespace ocl
