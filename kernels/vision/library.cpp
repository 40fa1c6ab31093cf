// Registers torchvision's operators and their autocast rules. torch keeps the registrations until
// torchvision defines the schemas; without torchvision they have no effect.
#include <ATen/DeviceGuard.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "kernels/core/operators/operands.h"
#include "kernels/vision/vision.h"

namespace ocl::vision {

void check_operands(const char* op,
                    std::initializer_list<std::pair<const char*, const Tensor&>> tensors) {
  const auto& [first_name, first] = *tensors.begin();
  for (const auto& [name, tensor] : tensors) {
    TORCH_CHECK(tensor.device() == first.device(), op, ": ", name, " is on ", tensor.device(),
                ", but ", first_name, " is on ", first.device());
    TORCH_CHECK(tensor.layout() == at::kStrided, op, ": ", name, " has the layout ",
                tensor.layout(), ", but must be a dense tensor");
    ocl::check_operands(tensor);
  }
}

namespace {

// Runs the kernel with the first argument's device as the current one, as generated wrappers do.
template <auto kernel>
struct Guarded;
template <typename Result, typename... Rest, Result (*kernel)(const Tensor&, Rest...)>
struct Guarded<kernel> {
  static Result call(const Tensor& first, Rest... rest) {
    const c10::OptionalDeviceGuard guard(at::device_of(first));
    return kernel(first, rest...);
  }
};

TORCH_LIBRARY_FRAGMENT(ocl, m) {
  m.def("batched_nms(Tensor boxes, Tensor scores, Tensor idxs, float iou_threshold) -> Tensor");
}
TORCH_LIBRARY_IMPL(ocl, PrivateUse1, m) { m.impl("batched_nms", &Guarded<&batched_nms>::call); }

TORCH_LIBRARY_IMPL(torchvision, PrivateUse1, m) {
  m.impl("nms", &Guarded<&nms>::call);
  m.impl("roi_align", &Guarded<&roi_align>::call);
  m.impl("_roi_align_backward", &Guarded<&roi_align_backward>::call);
  m.impl("ps_roi_align", &Guarded<&ps_roi_align>::call);
  m.impl("_ps_roi_align_backward", &Guarded<&ps_roi_align_backward>::call);
  m.impl("roi_pool", &Guarded<&roi_pool>::call);
  m.impl("_roi_pool_backward", &Guarded<&roi_pool_backward>::call);
  m.impl("ps_roi_pool", &Guarded<&ps_roi_pool>::call);
  m.impl("_ps_roi_pool_backward", &Guarded<&ps_roi_pool_backward>::call);
  m.impl("deform_conv2d", &Guarded<&deform_conv2d>::call);
  m.impl("_deform_conv2d_backward", &Guarded<&deform_conv2d_backward>::call);
}

// Like torchvision's rules on CUDA: casts tensors to float32, and results to the type of the first
// argument. Indices stay integers.
void in_float32(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  const size_t arguments = op.schema().arguments().size(), results = op.schema().returns().size();
  const at::ScalarType type = torch::jit::peek(*stack, 0, arguments).toTensor().scalar_type();
  for (size_t i = 0; i < arguments; ++i) {
    c10::IValue& argument = torch::jit::peek(*stack, i, arguments);
    if (!argument.isTensor()) continue;
    argument = at::autocast::cached_cast(at::kFloat, argument.toTensor(), at::kPrivateUse1);
  }
  op.callBoxed(stack);
  for (size_t i = 0; i < results; ++i) {
    c10::IValue& result = torch::jit::peek(*stack, i, results);
    if (result.toTensor().is_floating_point()) result = result.toTensor().to(type);
  }
}

void cast_to_float32(torch::Library& m, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&in_float32>());
  }
}

TORCH_LIBRARY_IMPL(ocl, AutocastPrivateUse1, m) { cast_to_float32(m, {"batched_nms"}); }
TORCH_LIBRARY_IMPL(torchvision, AutocastPrivateUse1, m) {
  cast_to_float32(m,
                  {"nms", "roi_align", "ps_roi_align", "roi_pool", "ps_roi_pool", "deform_conv2d"});
}

}  // namespace
}  // namespace ocl::vision
