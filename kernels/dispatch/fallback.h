// Operators without a kernel run on the CPU, on mapped memory. OCL_FALLBACK=warn (default: once per
// operator), allow, or error.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <map>
#include <string>

#include "kernels/core/types/dtype.h"
#include "kernels/core/types/float8.h"

namespace ocl {

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// The same for sparse and quantized tensors, which are copied to the CPU and back.
void layout_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Call before an operator runs on the CPU: counts it, and raises or warns as OCL_FALLBACK says.
void note_fallback(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

// Calls that fell back since the last reset: {"aten::foo": count}.
std::map<std::string, int64_t> fallback_stats();
void reset_fallback_stats();

namespace detail {
using HasType = bool (*)(ScalarType) noexcept;
bool device_lacks_type(const at::Tensor& tensor);
inline bool lacks(HasType has_type, const at::Tensor& tensor) {
  return tensor.defined() && (!has_type(tensor.scalar_type()) || device_lacks_type(tensor));
}
inline bool has_float8_kernel_type(ScalarType type) noexcept {
  return has_kernel_type(type) || is_float8(type);
}
inline bool lacks(HasType has_type, const std::optional<at::Tensor>& tensor) {
  return tensor && lacks(has_type, *tensor);
}
inline const at::Tensor& value_of(const at::Tensor& tensor) { return tensor; }
inline at::Tensor value_of(const std::optional<at::Tensor>& tensor) {
  return tensor.value_or(at::Tensor());
}
inline bool is_half(const at::Tensor& tensor) {
  return tensor.defined() && tensor.scalar_type() == ScalarType::Half;
}
bool promote_to_complex_half(std::initializer_list<at::Tensor> tensors);
}  // namespace detail

// Whether a tensor's type is unknown to the operator's kernels (complex, quantized, float8) or to
// its device (float64 without cl_khr_fp64).
template <typename... Tensors>
bool needs_fallback(const Tensors&... tensors) {
  return (detail::lacks(&has_kernel_type, tensors) || ...);
}

// The same for an operator whose kernels know float8 (OCL_FLOAT8).
template <typename... Tensors>
bool float8_needs_fallback(const Tensors&... tensors) {
  return (detail::lacks(&detail::has_float8_kernel_type, tensors) || ...);
}

// The same for an operator whose kernels know complex64 and complex128 (OCL_COMPLEX). They do not
// know complex32, the type that PyTorch promotes float16 and a complex number to.
template <typename... Tensors>
bool complex_needs_fallback(const Tensors&... tensors) {
  return (detail::lacks(&has_complex_kernel_type, tensors) || ...) ||
         ((detail::is_half(detail::value_of(tensors)) || ...) &&
          detail::promote_to_complex_half({detail::value_of(tensors)...}));
}

}  // namespace ocl
