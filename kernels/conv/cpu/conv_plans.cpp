// Launch of pad_phases (conv_pack.cl), and small helpers of the convolutions of CPU devices.
#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>

#include "backend/transfer.h"
#include "kernels/conv/cpu/conv_cpu.h"

namespace ocl {

size_t ConvPlanHash::operator()(const ConvPlanKey& key) const {
  size_t hash = static_cast<size_t>(key.kind) * 31 + static_cast<size_t>(key.device);
  const auto mix = [&](int32_t v) { hash = (hash ^ static_cast<uint32_t>(v)) * 1099511628211u; };
  const ConvShape& s = key.shape;
  for (const int32_t v : {s.images, s.groups, s.in_channels, s.out_channels}) mix(v);
  for (const auto* dims : {&s.in, &s.out, &s.kernel, &s.stride, &s.pad, &s.dilation}) {
    for (const int32_t v : *dims) mix(v);
  }
  return hash;
}

int64_t conv_lanes(const Device& device) {
  return static_cast<int64_t>(device.parameters().vector_width);
}

at::Tensor conv_scratch(int64_t floats, const at::Tensor& like) {
  return at::empty({std::max<int64_t>(floats, 1)}, like.options().memory_format(std::nullopt));
}

at::Tensor conv_table(const std::vector<int32_t>& values, const at::Tensor& like) {
  const at::Tensor table = at::empty({std::max<int64_t>(1, values.size())},
                                     like.options().dtype(at::kInt).memory_format(std::nullopt));
  if (!values.empty()) {
    copy_to_device(stream_of(table), view(table), values.data(), values.size() * sizeof(int32_t));
  }
  return table;
}

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
  arguments.add(view(padded)).add(view(tensor)).add(layout.images).add(layout.beside());
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
