// The operators of torch.amp.GradScaler. Nothing here waits for the device: the scale, and whether
// a gradient is infinite, stay in device memory.
#include <ATen/MemoryOverlap.h>

#include <map>

#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/foreach/foreach.h"
#include "native/amp.h"

namespace ocl {
namespace {

using at::Tensor, at::TensorList;

void check_element(const Tensor& tensor, const char* name, ScalarType type = ScalarType::Float) {
  TORCH_CHECK(tensor.numel() == 1, name, " must have one element, not ", tensor.numel());
  TORCH_CHECK(tensor.scalar_type() == type, name, " must be ", type, ", not ",
              tensor.scalar_type());
}

struct AmpUnscale {
  ListTypes types;

  KernelSource source(Device& device) const {
    return {"amp_unscale.cl", "amp_unscale", types.defines(device)};
  }
};

struct AmpUpdateScale {
  KernelSource source(Device&) const { return {"amp_update_scale.cl", "amp_update_scale", {}}; }
};

// Tensors must have one type and no gaps.
void unscale(TensorList gradients, const Tensor& found_inf, const Tensor& inv_scale) {
  const TensorLists lists{
      ocl_device(found_inf), {gradients}, compute_type(gradients[0].scalar_type())};
  const Kernel& kernel = find_kernel(lists.device, AmpUnscale{lists.types()});
  for_each_batch(lists, [&](const Batch& batch) {
    Arguments arguments(stream_of(found_inf), kernel);
    batch.bind(arguments);
    arguments.add(view(found_inf)).add(view(inv_scale));
    batch.enqueue(arguments);
  });
}

}  // namespace

namespace native {

OCL_NATIVE("_amp_foreach_non_finite_check_and_unscale_", amp_unscale_);
void amp_unscale_(TensorList self, Tensor& found_inf, const Tensor& inv_scale) {
  if (self.empty()) return;
  check_element(found_inf, "found_inf");
  check_element(inv_scale, "inv_scale");
  std::map<ScalarType, std::vector<Tensor>> by_type;
  std::vector<std::pair<Tensor, Tensor>> copies;
  for (const Tensor& gradient : self) {
    TORCH_CHECK(gradient.layout() == at::kStrided, "gradients to unscale must be strided tensors");
    TORCH_CHECK(gradient.is_floating_point(), "cannot unscale gradients of type ",
                gradient.scalar_type());
    at::assert_no_internal_overlap(gradient);
    Tensor dense = gradient;
    if (!gradient.is_non_overlapping_and_dense()) {
      dense = gradient.contiguous();
      copies.emplace_back(gradient, dense);
    }
    by_type[gradient.scalar_type()].push_back(dense);
  }
  for (const auto& [type, gradients] : by_type) unscale(gradients, found_inf, inv_scale);
  for (const auto& [gradient, dense] : copies) gradient.copy_(dense);
}

OCL_NATIVE("_amp_update_scale_", amp_update_scale_);
Tensor& amp_update_scale_(Tensor& self, Tensor& growth_tracker, const Tensor& found_inf,
                          double growth, double backoff, int64_t interval) {
  check_element(self, "current_scale");
  check_element(growth_tracker, "growth_tracker", ScalarType::Int);
  check_element(found_inf, "found_inf");
  const Kernel& kernel = find_kernel(ocl_device(self), AmpUpdateScale{});
  launch(stream_of(self), kernel, {1}, {1}, view(self), view(growth_tracker), view(found_inf),
         static_cast<float>(growth), static_cast<float>(backoff), interval);
  return self;
}

}  // namespace native
}  // namespace ocl
