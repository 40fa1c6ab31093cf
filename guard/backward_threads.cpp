#include "guard/backward_threads.h"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "backend/queue/stream.h"

namespace ocl {

// A device's thread frees a backward pass before it takes the next. So this runs an empty pass,
// without Python objects.
void wait_for_backward_threads() {
  if (!initialized()) return;
  const c10::InferenceMode records(false);
  const c10::AutoGradMode differentiates(true);
  for (DeviceIndex index = 0; index < device_count(); ++index) {
    if (!device(index).has_context()) continue;
    const c10::Device place(c10::DeviceType::PrivateUse1, index);
    const at::Tensor leaf = at::empty({0}, place).requires_grad_();
    torch::autograd::grad({leaf.view({0})}, {leaf}, {at::empty({0}, place)});
  }
}

void drain_devices() noexcept {
  if (!initialized()) return;
  for (DeviceIndex index = 0; index < device_count(); ++index) wait_for_commands_so_far(index);
}

}  // namespace ocl
