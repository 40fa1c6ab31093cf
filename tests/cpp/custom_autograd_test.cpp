// The example of PyTorch's tutorial "Facilitating New Backend Integration by PrivateUse1": an
// operator with a forward and a backward of its own, registered for AutogradPrivateUse1.
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/selu.h>
#include <ATen/ops/where.h>
#include <c10/core/DeviceType.h>

#include "tests/cpp/support.h"

namespace ocl {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

constexpr double kAlpha = 1.6732632423543772848170429916717;
constexpr double kScale = 1.0507009873554804934193349852946;

int backward_calls = 0;

Tensor call_selu(const Tensor& x) {
  // Not kept: the operator lives as long as the test.
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow("ocl_test::custom_selu", "")
      .typed<Tensor(const Tensor&)>()
      .call(x);
}

// scale * (max(0, x) + min(0, alpha * (exp(x) - 1))), of operators that have kernels on ocl.
Tensor selu_forward(const Tensor& x) {
  return kScale * (x.clamp_min(0) + (kAlpha * at::expm1(x.clamp_max(0))));
}

struct CustomSelu : torch::autograd::Function<CustomSelu> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    context->save_for_backward({x});
    const at::AutoDispatchBelowADInplaceOrView below;
    return call_selu(x);
  }
  static tensor_list backward(AutogradContext* context, const tensor_list& gradients) {
    ++backward_calls;
    const Tensor x = context->get_saved_variables()[0];
    const Tensor slope = at::where(x > 0, kScale, kScale * kAlpha * at::exp(x));
    return {gradients[0] * slope};
  }
};

Tensor selu_autograd(const Tensor& x) { return CustomSelu::apply(x); }

struct CustomAutograd : test::DeviceTest {
  // `import torch_ocl` does the same; the autograd engine asks for the accelerator.
  static void SetUpTestSuite() { c10::register_privateuse1_backend("ocl"); }

  CustomAutograd() {
    definition.def("custom_selu(Tensor x) -> Tensor");
    kernel.impl("custom_selu", &selu_forward);
    autograd.impl("custom_selu", &selu_autograd);
  }
  Tensor numbers() const {
    return at::linspace(-3, 3, 101).to(c10::Device(c10::DeviceType::PrivateUse1, GetParam()));
  }

  torch::Library definition{torch::Library::DEF, "ocl_test", std::nullopt, __FILE__, __LINE__};
  torch::Library kernel{torch::Library::IMPL, "ocl_test", c10::DispatchKey::PrivateUse1, __FILE__,
                        __LINE__};
  torch::Library autograd{torch::Library::IMPL, "ocl_test", c10::DispatchKey::AutogradPrivateUse1,
                          __FILE__, __LINE__};
};

TEST_P(CustomAutograd, SeluMatchesPyTorchs) {
  const Tensor x = numbers().set_requires_grad(true);
  const Tensor y = call_selu(x), expected = at::selu(x);
  EXPECT_TRUE(y.is_privateuseone() && y.requires_grad());
  EXPECT_TRUE(at::allclose(y.cpu(), expected.cpu(), 1e-5, 1e-6));

  const Tensor weights = at::linspace(0, 1, 101).to(x.device());
  backward_calls = 0;
  const auto gradient = [&](const Tensor& result) {
    return torch::autograd::grad({(result * weights).sum()}, {x})[0];
  };
  const Tensor custom = gradient(y);
  EXPECT_EQ(backward_calls, 1);
  EXPECT_TRUE(custom.is_privateuseone());
  EXPECT_TRUE(at::allclose(custom.cpu(), gradient(expected).cpu(), 1e-5, 1e-6));
  EXPECT_EQ(backward_calls, 1);
}

TEST_P(CustomAutograd, NeedsNoGradient) {
  const Tensor y = call_selu(numbers());
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(last_kernel().find("mul"), 0u) << last_kernel();
}

OCL_ON_EVERY_DEVICE(CustomAutograd);

}  // namespace
}  // namespace ocl
