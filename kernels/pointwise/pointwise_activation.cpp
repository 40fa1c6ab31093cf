// Activations and losses that PyTorch implements separately for CPU and CUDA, so that they cannot
// be rows of pointwise_table.h.
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Reduction.h>
#include <ATen/native/Gelu.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/sum.h>

#include "backend/queue/fault.h"
#include "kernels/core/operators/check_range.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/pointwise/pointwise.h"
#include "native/pointwise_activation.h"

namespace ocl {
namespace {

constexpr PointwiseOp kGelu{"gelu", "gelu(a)", kFloating};
constexpr PointwiseOp kGeluTanh{"gelu_tanh", "gelu_tanh(a)", kFloating};
constexpr PointwiseOp kGeluBackward{"gelu_backward", "gelu_backward(a, b)", kFloating};
constexpr PointwiseOp kGeluTanhBackward{"gelu_tanh_backward", "gelu_tanh_backward(a, b)",
                                        kFloating};
constexpr PointwiseOp kGateGrad{"glu_value_backward", "a * sigmoid(b)", kFloating};
constexpr PointwiseOp kGateBackward{"glu_gate_backward", "a * b * sigmoid(c) * (C(1) - sigmoid(c))",
                                    kFloating};
constexpr PointwiseOp kLogSigmoid{"log_sigmoid", "log_sigmoid(a)", kFloating};
constexpr PointwiseOp kLogSigmoidBackward{"log_sigmoid_backward", "log_sigmoid_backward(a, b)",
                                          kFloating};
constexpr PointwiseOp kBce{"binary_cross_entropy", "binary_cross_entropy(a, b)", kFloating};
constexpr PointwiseOp kBceBackward{"binary_cross_entropy_backward",
                                   "binary_cross_entropy_backward(a, b, c) * s0", kFloating};

// Runs the operator and stores the result in `out`, which has the right shape already.
template <typename... Inputs>
void run(const PointwiseOp& op, const at::Tensor& out, c10::ArrayRef<c10::Scalar> scalars,
         const Inputs&... inputs) {
  at::TensorIteratorConfig config;
  config.add_output(out).resize_outputs(false).promote_inputs_to_common_dtype(true);
  (config.add_const_input(inputs), ...);
  auto iter = config.build();
  pointwise(iter, op, scalars);
}

at::Tensor reduce(const at::Tensor& loss, int64_t reduction) {
  if (reduction == at::Reduction::Mean) return loss.mean();
  return reduction == at::Reduction::Sum ? loss.sum() : loss;
}

}  // namespace

namespace native {

OCL_STRUCTURED("gelu.out", gelu)
(const Tensor&, std::string_view approximate, const Tensor&) {
  const bool tanh = at::native::get_gelutype_enum(approximate) == at::native::GeluType::Tanh;
  pointwise(*this, tanh ? kGeluTanh : kGelu);
}

OCL_STRUCTURED("gelu_backward.grad_input", gelu_backward)
(const Tensor&, const Tensor&, std::string_view approximate, const Tensor&) {
  const bool tanh = at::native::get_gelutype_enum(approximate) == at::native::GeluType::Tanh;
  pointwise(*this, tanh ? kGeluTanhBackward : kGeluBackward);
}

OCL_NATIVE("glu_backward.grad_input", glu_backward_out);
Tensor& glu_backward_out(const Tensor& grad, const Tensor& self, int64_t dim, Tensor& grad_input) {
  TORCH_CHECK(self.dim() > 0, "glu does not support 0-dimensional tensors");
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  const int64_t size = self.size(wrapped);
  TORCH_CHECK(size % 2 == 0, "Halving dimension must be even, but dimension ", wrapped, " is size ",
              size);
  grad_input.resize_as_(self);
  const int64_t half = size / 2;
  const Tensor value = self.narrow(wrapped, 0, half), gate = self.narrow(wrapped, half, half);
  run(kGateGrad, grad_input.narrow(wrapped, 0, half), {}, grad, gate);
  run(kGateBackward, grad_input.narrow(wrapped, half, half), {}, grad, value, gate);
  return grad_input;
}

OCL_NATIVE("glu_backward", glu_backward);
Tensor glu_backward(const Tensor& grad, const Tensor& self, int64_t dim) {
  Tensor grad_input = at::empty({0}, self.options());
  return glu_backward_out(grad, self, dim, grad_input);
}

// The buffer stays empty, as on CUDA: only the CPU's backward pass uses it.
OCL_NATIVE("log_sigmoid_forward.output", log_sigmoid_forward_out);
std::tuple<Tensor&, Tensor&> log_sigmoid_forward_out(const Tensor& self, Tensor& output,
                                                     Tensor& buffer) {
  auto iter = at::TensorIteratorConfig().add_output(output).add_const_input(self).build();
  pointwise(iter, kLogSigmoid);
  return {output, buffer};
}

OCL_NATIVE("log_sigmoid_forward", log_sigmoid_forward);
std::tuple<Tensor, Tensor> log_sigmoid_forward(const Tensor& self) {
  Tensor output = at::empty_like(self), buffer = at::empty({0}, self.options());
  log_sigmoid_forward_out(self, output, buffer);
  return {output, buffer};
}

OCL_NATIVE("log_sigmoid_backward.grad_input", log_sigmoid_backward_out);
Tensor& log_sigmoid_backward_out(const Tensor& grad, const Tensor& self, const Tensor&,
                                 Tensor& grad_input) {
  auto iter = at::TensorIteratorConfig()
                  .add_output(grad_input)
                  .add_const_input(grad)
                  .add_const_input(self)
                  .build();
  pointwise(iter, kLogSigmoidBackward);
  return grad_input;
}

OCL_NATIVE("log_sigmoid_backward", log_sigmoid_backward);
Tensor log_sigmoid_backward(const Tensor& grad, const Tensor& self, const Tensor& buffer) {
  Tensor grad_input = at::empty_like(grad);
  return log_sigmoid_backward_out(grad, self, buffer, grad_input);
}

OCL_NATIVE("binary_cross_entropy", binary_cross_entropy);
Tensor binary_cross_entropy(const Tensor& self, const Tensor& target,
                            const std::optional<Tensor>& weight, int64_t reduction) {
  const auto site_of = [](const char* text) {
    return fault_site(
        {"aten::binary_cross_entropy", FaultClass::kRuntime, text, "numbers from 0 to"});
  };
  static const int of_input =
      site_of("all elements of input should be between 0 and 1, but element");
  static const int of_target =
      site_of("all elements of target should be between 0 and 1, but element");
  expect_type(target, self.scalar_type(), "binary_cross_entropy");
  check_range(self, {0, 1, 1, of_input});
  check_range(target, {0, 1, 1, of_target});
  const Tensor loss = at::empty_like(self);
  run(kBce, loss, {}, self, target);
  if (weight && weight->defined()) loss.mul_(*weight);
  return reduce(loss, reduction);
}

OCL_NATIVE("binary_cross_entropy.out", binary_cross_entropy_out);
Tensor& binary_cross_entropy_out(const Tensor& self, const Tensor& target,
                                 const std::optional<Tensor>& weight, int64_t reduction,
                                 Tensor& out) {
  const Tensor loss = binary_cross_entropy(self, target, weight, reduction);
  return out.resize_as_(loss).copy_(loss);
}

OCL_NATIVE("binary_cross_entropy_backward.grad_input", binary_cross_entropy_backward_out);
Tensor& binary_cross_entropy_backward_out(const Tensor& grad, const Tensor& self,
                                          const Tensor& target, const std::optional<Tensor>& weight,
                                          int64_t reduction, Tensor& grad_input) {
  for (const Tensor& each : {grad, target}) {
    expect_type(each, self.scalar_type(), "binary_cross_entropy_backward");
  }
  grad_input.resize_as_(self);
  const double factor =
      reduction == at::Reduction::Mean ? 1.0 / static_cast<double>(self.numel()) : 1.0;
  run(kBceBackward, grad_input, {factor}, grad, self, target);
  if (weight && weight->defined()) grad_input.mul_(*weight);
  return grad_input;
}

OCL_NATIVE("binary_cross_entropy_backward", binary_cross_entropy_backward);
Tensor binary_cross_entropy_backward(const Tensor& grad, const Tensor& self, const Tensor& target,
                                     const std::optional<Tensor>& weight, int64_t reduction) {
  Tensor grad_input = at::empty_like(self);
  return binary_cross_entropy_backward_out(grad, self, target, weight, reduction, grad_input);
}

}  // namespace native
}  // namespace ocl
