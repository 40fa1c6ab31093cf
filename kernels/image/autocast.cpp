// The image operators under autocast: tensors of different types are cast to the widest type. The
// kernels compute in float32 at least and return the type of their input, so nothing else is cast.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace ocl::image {
namespace {

void promoted(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  std::optional<at::ScalarType> widest;
  for (const c10::IValue& argument : arguments) {
    if (!argument.isTensor() || !argument.toTensor().is_floating_point()) continue;
    const at::ScalarType type = argument.toTensor().scalar_type();
    widest = widest ? c10::promoteTypes(*widest, type) : type;
  }
  for (size_t i = stack->size() - arguments.size(); i < stack->size(); ++i) {
    c10::IValue& argument = (*stack)[i];
    if (argument.isTensor() && argument.toTensor().is_floating_point()) {
      argument = argument.toTensor().to(*widest);
    }
  }
  op.callBoxed(stack);
}

TORCH_LIBRARY_IMPL(torch_ocl, AutocastPrivateUse1, m) {
  for (const char* name :
       {"crop", "paste", "flip", "resize", "rotate", "affine", "normalize", "gaussian_blur",
        "adjust_brightness", "adjust_contrast", "adjust_saturation", "adjust_hue"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&promoted>());
  }
}

}  // namespace
}  // namespace ocl::image
