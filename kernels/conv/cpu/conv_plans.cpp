#include "kernels/conv/cpu/conv_plans.h"

#include <ATen/ops/empty.h>

#include "backend/memory/transfer.h"

namespace ocl {

size_t ConvPlanHash::operator()(const ConvPlanKey& key) const {
  size_t hash = static_cast<size_t>(key.direction) * 31 + static_cast<size_t>(key.device);
  const auto mix = [&](int32_t v) { hash = (hash ^ static_cast<uint32_t>(v)) * 1099511628211u; };
  mix(static_cast<int32_t>(key.stream));
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

}  // namespace ocl
