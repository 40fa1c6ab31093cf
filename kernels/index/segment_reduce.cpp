// segment_reduce: PyTorch's implementation with our kernels in its stubs.
#include <ATen/native/SegmentReduce.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/core/grids/grid.h"
#include "kernels/core/grids/stripes.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"

namespace ocl {
namespace {

using at::Tensor;
using at::native::ReductionType;
using Initial = std::optional<c10::Scalar>;

#include "kernels/index/segment_reduce_parameters.clh"

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

// Whether work-items may share a segment: the product of a part may overflow where the whole is 0.
bool is_split(ReductionType reduction) { return reduction != ReductionType::PROD; }

struct SegmentReduce {
  const char* kernel;
  ScalarType type, offset;
  ReductionType reduction;
  bool has_initial;

  KernelSource source(Device& device, size_t group) const {
    Defines defines = compute_defines(compute_type(type));
    define_grid(defines, device);
    if (is_split(reduction)) define_stripes(defines, device, group);
    defines.set("IN", dtype_name(type)).set("OFFSET", offset == at::kInt ? "int" : "long");
    if (reduction == ReductionType::MEAN) defines.set("MEAN", 1);
    if (reduction == ReductionType::PROD) defines.set("PROD", 1);
    if (reduction == ReductionType::MAX) defines.set("MAX_OF", 1);
    if (reduction == ReductionType::MIN) defines.set("MIN_OF", 1);
    if (has_initial) defines.set("INITIAL", 1);
    return {"segment_reduce.cl", kernel, defines};
  }
};

// Launches the kernel for all segments, and if some may be long, the one for long segments.
struct Names {
  const char *each, *long_ones;
};
constexpr Names kForward{"segment_reduce", "segment_reduce_long"},
    kBackward{"segment_backward", "segment_backward_long"};

void run(const Names& names, const Segments& s, at::ArrayRef<Tensor> tensors, ScalarType offset,
         ReductionType reduction, const Initial& initial) {
  const Tensor& out = tensors.back();
  const Tensor& offsets = tensors[tensors.size() - 2];
  TORCH_CHECK(offsets.numel() == s.outer * (s.segments + 1), "segment_reduce: offsets of shape ",
              offsets.sizes(), " for data of shape ", tensors[tensors.size() - 3].sizes());
  Device& device = ocl_device(out);
  const ScalarType type = out.scalar_type();
  const auto segments = static_cast<size_t>(s.outer * s.segments),
             columns = static_cast<size_t>(s.inner);
  const auto find = [&](const char* name) -> const Kernel& {
    return find_kernel(device, SegmentReduce{name, type, offset, reduction, initial.has_value()});
  };
  const auto arguments_of = [&](const Kernel& kernel) {
    Arguments arguments(stream_of(out), kernel);
    for (const Tensor& tensor : tensors) arguments.add(view(tensor));
    add_number(arguments, as_element(initial.value_or(0), type), compute_type(type));
    arguments.add(s);
    return arguments;
  };
  const UnitGrid grid =
      unit_grid(device, segments, columns,
                1 + static_cast<size_t>(s.size / std::max<int64_t>(s.segments, 1)));
  arguments_of(find(names.each)).add(grid.per_item).enqueue(grid.global, grid.local);
  if (!is_split(reduction) || !may_be_long(device, static_cast<size_t>(s.size))) return;
  const Kernel& kernel = find(names.long_ones);
  const StripeGrid stripes = stripe_grid(kernel, segments, columns);
  arguments_of(kernel).add(stripes.share).enqueue(stripes.global, stripes.local);
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
  run(kForward, s, {data, offsets, out}, offsets.scalar_type(), reduction, initial);
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
  at::DimVector shape(data.sizes());
  shape[offsets.dim() - 1] = s.segments;
  TORCH_CHECK(grad.sizes() == shape && output.sizes() == shape,
              "_segment_reduce_backward: grad and output have sizes ", grad.sizes(), " and ",
              output.sizes(), ", but the result has ", at::IntArrayRef(shape));
  const Tensor out = at::zeros_like(data, at::MemoryFormat::Contiguous);
  if (output.numel() == 0) return out;
  run(kBackward, s, {grad, output, data, offsets, out}, offsets.scalar_type(), reduction, initial);
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
