#include "kernels/conv/cpu/conv_pack.h"

#include <ATen/ceil_div.h>

#include "kernels/conv/cpu/conv_plans.h"
#include "kernels/core/tensors.h"

namespace ocl {

at::Tensor conv_pad(const PaddedLayout& layout, const at::Tensor& tensor) {
  Device& device = ocl_device(tensor);
  const int64_t lanes = conv_lanes(device);
  static Site site;
  const Kernel& kernel = find_kernel(device, {&site}, [&] {
    Defines defines;
    defines.set("VW", lanes);
    return KernelSource{"conv_pack.cl", "pad_phases", defines};
  });
  const at::Tensor padded = conv_scratch(layout.floats(lanes), tensor);
  const int64_t lines = layout.lines();
  const int64_t per_task = at::ceil_div(lines, at::ceil_div(kConvTasks, int64_t{layout.channels}));
  Arguments arguments(stream_of(tensor), kernel);
  arguments.add(view(padded)).add(view(tensor)).add(layout.images).add(layout.images_per_line());
  arguments.add(layout.channels);
  for (const auto* dims : {&layout.size, &layout.stride, &layout.phases, &layout.padded}) {
    for (const int32_t value : *dims) arguments.add(value);
  }
  arguments.add(layout.channel(lanes)).add(layout.front).add(layout.back);
  arguments.add(static_cast<int32_t>(per_task));
  arguments.enqueue(
      {static_cast<size_t>(layout.channels), static_cast<size_t>(at::ceil_div(lines, per_task))},
      {});
  return padded;
}

}  // namespace ocl
