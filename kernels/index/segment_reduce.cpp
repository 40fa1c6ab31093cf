// segment_reduce: PyTorch's implementation with our kernels in its stubs.
#include <ATen/native/SegmentReduce.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/core/dtype.h"
#include "kernels/core/grid.h"
#include "kernels/core/registration.h"
#include "kernels/core/tensors.h"

namespace ocl {
namespace {

using at::Tensor;
using at::native::ReductionType;
using Initial = std::optional<c10::Scalar>;

// Mirrors Segments of segment_reduce.cl.
struct Segments {
  int64_t outer, size, inner, segments;
};

Segments segments_of(const Tensor& data, const Tensor& offsets, int64_t axis) {
  Segments s{1, data.size(axis), 1, offsets.size(axis) - 1};
  for (int64_t d = 0; d < axis; ++d) s.outer *= data.size(d);
  for (int64_t d = axis + 1; d < data.dim(); ++d) s.inner *= data.size(d);
  return s;
}

void check_index_type(const Tensor& t) {
  const ScalarType type = t.scalar_type();
  if (type != at::kInt && type != at::kLong) refuse_type(ocl_device(t), type, "segment_reduce");
}

Tensor offsets_of(const Tensor& lengths) {
  check_index_type(lengths);
  at::DimVector shape(lengths.sizes());
  shape.back() = 1;
  const Tensor ends = lengths.cumsum(-1);
  return at::cat({at::zeros(shape, ends.options()), ends}, -1);
}

const Kernel& find(Device& device, const char* kernel, ScalarType type, ScalarType offset,
                   ReductionType reduction, const Initial& initial) {
  static Site site;
  KernelKey key{&site};
  key.by = {reinterpret_cast<uint64_t>(kernel), static_cast<uint64_t>(type),
            static_cast<uint64_t>(offset) << 8 | static_cast<uint64_t>(reduction) << 1 |
                uint64_t{initial.has_value()}};
  return find_kernel(device, key, [&] {
    Defines defines = compute_defines(compute_type(type));
    define_grid(defines, device);
    defines.set("IN", dtype_name(type)).set("OFFSET", offset == at::kInt ? "int" : "long");
    if (reduction == ReductionType::MEAN) defines.set("MEAN", 1);
    if (reduction == ReductionType::PROD) defines.set("PROD", 1);
    if (reduction == ReductionType::MAX) defines.set("MAX_OF", 1);
    if (reduction == ReductionType::MIN) defines.set("MIN_OF", 1);
    if (initial) defines.set("INITIAL", 1);
    return KernelSource{"segment_reduce.cl", kernel, defines};
  });
}

UnitGrid grid_of(const Device& device, const Segments& s) {
  return unit_grid(device, static_cast<size_t>(s.outer * s.segments), static_cast<size_t>(s.inner),
                   static_cast<size_t>(1 + s.size / std::max<int64_t>(s.segments, 1)));
}

Tensor reduce_offsets(ReductionType reduction, const Tensor& data, const Tensor& offsets,
                      int64_t /*axis*/, const Initial& initial) {
  Device& device = ocl_device(data);
  const ScalarType type = data.scalar_type();
  check_index_type(offsets);
  check_floating(device, type, "segment_reduce");
  check_device_has(device, type, "segment_reduce");
  const int64_t axis = offsets.dim() - 1;
  const Segments s = segments_of(data, offsets, axis);
  at::DimVector shape(data.sizes());
  shape[axis] = s.segments;
  const Tensor out = at::empty(shape, data.options());
  if (out.numel() == 0) return out;
  const UnitGrid grid = grid_of(device, s);
  Arguments arguments(stream_of(data), find(device, "segment_reduce", type, offsets.scalar_type(),
                                            reduction, initial));
  arguments.add(view(data)).add(view(offsets)).add(view(out));
  add_number(arguments, as_element(initial.value_or(0), type), compute_type(type));
  arguments.add(s).add(grid.per_item).enqueue(grid.global, grid.local);
  return out;
}

Tensor reduce_lengths(ReductionType reduction, const Tensor& data, const Tensor& lengths,
                      int64_t axis, const Initial& initial) {
  return reduce_offsets(reduction, data, offsets_of(lengths), axis, initial);
}

Tensor backward_offsets(const Tensor& grad, const Tensor& output, const Tensor& data,
                        ReductionType reduction, const Tensor& offsets, int64_t /*axis*/,
                        const Initial& initial) {
  Device& device = ocl_device(data);
  const ScalarType type = data.scalar_type();
  check_index_type(offsets);
  check_device_has(device, type, "_segment_reduce_backward");
  for (const Tensor& each : {grad, output}) expect_type(each, type, "_segment_reduce_backward");
  const Segments s = segments_of(data, offsets, offsets.dim() - 1);
  const Tensor out = at::zeros_like(data, at::MemoryFormat::Contiguous);
  if (output.numel() == 0) return out;
  const UnitGrid grid = grid_of(device, s);
  Arguments arguments(stream_of(data), find(device, "segment_backward", type, offsets.scalar_type(),
                                            reduction, initial));
  arguments.add(view(grad)).add(view(output)).add(view(data)).add(view(offsets)).add(view(out));
  add_number(arguments, as_element(initial.value_or(0), type), compute_type(type));
  arguments.add(s).add(grid.per_item).enqueue(grid.global, grid.local);
  return out;
}

Tensor backward_lengths(const Tensor& grad, const Tensor& output, const Tensor& data,
                        ReductionType reduction, const Tensor& lengths, int64_t axis,
                        const Initial& initial) {
  return backward_offsets(grad, output, data, reduction, offsets_of(lengths), axis, initial);
}

}  // namespace
}  // namespace ocl

namespace at::native {

OCL_STUB("segment_reduce.default", _segment_reduce_lengths_stub, &ocl::reduce_lengths)
OCL_STUB("segment_reduce.default", _segment_reduce_offsets_stub, &ocl::reduce_offsets)
OCL_STUB("_segment_reduce_backward.default", _segment_reduce_lengths_backward_stub,
         &ocl::backward_lengths)
OCL_STUB("_segment_reduce_backward.default", _segment_reduce_offsets_backward_stub,
         &ocl::backward_offsets)

}  // namespace at::native
