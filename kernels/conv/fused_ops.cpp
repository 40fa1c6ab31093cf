// Our own operators for a matrix product or convolution with an epilogue. torch.compile replaces
// separate operators by them (python/torch_ocl/inductor/passes/epilogues.py).
#include <ATen/DeviceGuard.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>

#include "kernels/conv/common/conv.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/matmul/gemm.h"

namespace ocl {
namespace {

using at::Tensor;

Activation activation_of(std::string_view name) {
  const auto* const found = std::ranges::find(kActivationNames, name);
  TORCH_CHECK_VALUE(found != std::end(kActivationNames), "unknown activation '", name,
                    "': expected one of ", c10::Join(", ", c10::ArrayRef(kActivationNames)));
  return static_cast<Activation>(found - kActivationNames);
}

void check_residual(const char* op, const Tensor& residual, at::IntArrayRef sizes,
                    const Tensor& like) {
  TORCH_CHECK(residual.sizes() == sizes && residual.scalar_type() == like.scalar_type() &&
                  residual.device() == like.device(),
              op, ": the residual is ", residual.scalar_type(), " of shape ", residual.sizes(),
              " on ", residual.device(), ", but the result ", like.scalar_type(), " of shape ",
              sizes, " on ", like.device());
}

// activation(bias + a b + residual); the bias is broadcast.
Tensor addmm_epilogue(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias,
                      const std::optional<Tensor>& residual, std::string_view activation) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0),
              "addmm_epilogue: cannot multiply matrices of shapes ", a.sizes(), " and ", b.sizes());
  TORCH_CHECK(at::isFloatingType(a.scalar_type()),
              "addmm_epilogue: expected floating-point matrices, but got ", a.scalar_type());
  const c10::OptionalDeviceGuard guard(a.device());
  const Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
  Epilogue epilogue{activation_of(activation), residual.value_or(Tensor())};
  if (epilogue.residual.defined()) {
    check_residual("addmm_epilogue", epilogue.residual, out.sizes(), a);
  }
  const bool has_bias = bias && bias->defined();
  if (has_bias) {
    TORCH_CHECK(bias->scalar_type() == a.scalar_type(), "addmm_epilogue: matrices of ",
                a.scalar_type(), ", but a bias of ", bias->scalar_type());
  }
  gemm(out, a, b, 1, has_bias ? *bias : Tensor(), has_bias ? 1 : 0, epilogue);
  return out;
}

// activation(convolution(input, weight, bias, ...) + residual), contiguous.
Tensor convolution_epilogue(const Tensor& input, const Tensor& weight,
                            const std::optional<Tensor>& bias, at::IntArrayRef stride,
                            at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                            at::IntArrayRef output_padding, int64_t groups,
                            const std::optional<Tensor>& residual, std::string_view activation) {
  TORCH_CHECK(at::isFloatingType(input.scalar_type()),
              "convolution_epilogue: expected floating-point images, but got ",
              input.scalar_type());
  const c10::OptionalDeviceGuard guard(input.device());
  Epilogue epilogue{activation_of(activation), {}};
  if (residual && residual->defined()) epilogue.residual = residual->contiguous();
  return convolution(input.contiguous(), weight, bias, stride, padding, dilation, transposed,
                     output_padding, groups, epilogue);
}

}  // namespace
}  // namespace ocl

TORCH_LIBRARY_FRAGMENT(ocl, m) {
  m.def(
      "addmm_epilogue(Tensor a, Tensor b, Tensor? bias, Tensor? residual, str activation)"
      " -> Tensor");
  m.def(
      "convolution_epilogue(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride,"
      " SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding,"
      " SymInt groups, Tensor? residual, str activation) -> Tensor");
}

TORCH_LIBRARY_IMPL(ocl, PrivateUse1, m) {
  m.impl("addmm_epilogue", TORCH_FN(ocl::addmm_epilogue));
  m.impl("convolution_epilogue", TORCH_FN(ocl::convolution_epilogue));
}
