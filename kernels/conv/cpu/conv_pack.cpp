#include "kernels/conv/cpu/conv_pack.h"

#include <ATen/ceil_div.h>

#include "kernels/conv/cpu/conv_plans.h"
#include "kernels/core/tensors/tensors.h"

namespace ocl {

namespace {

// The struct of conv_pack.cl.
struct Phases {
  using Dims = ConvShape::Dims;

  int64_t channel, front, back;
  int32_t images, images_per_line, channels;
  Dims size, stride, phases, padded;
  int32_t lines_per_task;
};

struct PadPhases {
  KernelSource source(Device& device) const {
    Defines defines;
    defines.set("VW", conv_lanes(device));
    return {"conv_pack.cl", "pad_phases", defines};
  }
};

}  // namespace

at::Tensor conv_pad(const PaddedLayout& layout, const at::Tensor& tensor) {
  Device& device = ocl_device(tensor);
  const int64_t lanes = conv_lanes(device);
  const at::Tensor padded = conv_scratch(layout.floats(lanes), tensor);
  const int64_t lines = layout.lines();
  const int64_t per_task = at::ceil_div(lines, at::ceil_div(kConvTasks, int64_t{layout.channels}));
  const Phases phases{layout.channel(lanes),
                      layout.front,
                      layout.back,
                      layout.images,
                      layout.images_per_line(),
                      layout.channels,
                      layout.size,
                      layout.stride,
                      layout.phases,
                      layout.padded,
                      static_cast<int32_t>(per_task)};
  launch(stream_of(tensor), find_kernel(device, PadPhases{}),
         {static_cast<size_t>(layout.channels), static_cast<size_t>(at::ceil_div(lines, per_task))},
         {}, view(padded), view(tensor), phases);
  return padded;
}

}  // namespace ocl
