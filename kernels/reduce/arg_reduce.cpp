// argmax, argmin, and max and min along a dimension: launches of arg_reduce*.cl.
#include <ATen/ceil_div.h>
#include <ATen/native/ReduceOps.h>
#include <ATen/native/TensorCompare.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <bit>

#include "kernels/core/grids/grid.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/reduce/reduce_shape.h"

namespace ocl {
namespace {

constexpr size_t kColumns = 16;         // the most vectors of adjacent outputs in a task
constexpr size_t kPartElements = 4096;  // a part has at least this many reduced elements
constexpr size_t kManyParts = 8;        // from here on, a work-group merges them
// The size of a group. A work-item has at least kPerItem elements if the row is long enough.
constexpr size_t kLeastItems = 64, kMostItems = 256, kPerItem = 16;
constexpr size_t kMostOfPart = INT32_MAX;  // the most elements, which a work-item counts in 32 bits

enum class Kind : uint8_t { kItems, kRows, kColumns, kGroup, kMerge, kMergeGroup };

bool by_group(Kind kind) { return kind == Kind::kGroup || kind == Kind::kMergeGroup; }
bool merges(Kind kind) { return kind == Kind::kMerge || kind == Kind::kMergeGroup; }

struct Plan {
  Device& device;
  ScalarType type, compute;
  ReduceShape shape;
  bool greatest, values;
  Kind kind = Kind::kItems;
  size_t width = 1;
  size_t group = 0;  // the most work-items of a group

  bool partial() const { return !merges(kind) && shape.parts > 1; }
};

struct Results {
  BufferView indices;
  std::optional<BufferView> values;
};

struct ArgReduce {
  ScalarType type, compute;
  uint8_t kept;  // dimensions
  bool greatest, values, partial;
  Kind kind;
  size_t most;  // work-items of a group; 0 if not by_group()

  KernelSource source(Device& device, size_t group) const {
    Defines defines = compute_defines(compute);
    defines.set("IN", dtype_name(type))
        .set("KEPT", int64_t{kept})
        .set("REDUCED", 1)
        .set("BETTER(x, y)", greatest ? "((x) > (y))" : "((x) < (y))")
        .set("FINISH(x)", "(x)");
    if (values) defines.set("WITH_VALUES", 1);
    if (partial) defines.set("PARTIAL", 1);
    if (by_group(kind)) {
      defines.set("GROUP", static_cast<int64_t>(std::min(group, most)));
      const char* name = kind == Kind::kGroup ? "arg_group" : "arg_merge_group";
      return {"arg_reduce_gpu.cl", name, defines};
    }
    if (kind == Kind::kRows || kind == Kind::kColumns) {
      define_width_or_group(defines, device, compute, group);
      defines.set("COLUMNS", kColumns)
          .set("POSITION", c10::elementSize(compute) == 8 ? "long" : "int");
      const char* name = kind == Kind::kRows ? "arg_rows" : "arg_columns";
      return {"arg_reduce_cpu.cl", name, defines};
    }
    return {"arg_reduce.cl", merges(kind) ? "arg_merge" : "arg_reduce", defines};
  }
};

const Kernel& kernel_of(const Plan& plan) {
  return find_kernel(
      plan.device, ArgReduce{plan.type, plan.compute, static_cast<uint8_t>(plan.shape.kept.size()),
                             plan.greatest, plan.values, plan.partial(), plan.kind,
                             by_group(plan.kind) ? plan.group : 0});
}

// The type of positions in vectors of the CPU family, which must be as wide as the elements.
ScalarType vector_type(ScalarType type) {
  const ScalarType compute = compute_type(type);
  return c10::elementSize(compute) < 4 ? ScalarType::Int : compute;
}

// The size of a group for `elements`. In larger groups, few work-items would have work.
size_t group_for(size_t elements) {
  return std::clamp(std::bit_floor(elements / kPerItem), kLeastItems, kMostItems);
}

Plan make_plan(Device& device, ScalarType type, const ReduceShape& shape, bool greatest,
               bool values) {
  Plan plan{device, type, compute_type(type), shape, greatest, values};
  const auto element = static_cast<int64_t>(c10::elementSize(type));
  const bool rows = shape.reduced[0].in == element;
  const bool columns = !rows && shape.kept[0].in == element && shape.kept[0].size > 1;
  size_t independent = shape.outputs();
  if (device.family() == KernelFamily::kGpu) {
    if (!columns) plan.kind = Kind::kGroup;
  } else if ((rows || columns) && shape.elements() < INT32_MAX) {
    plan.kind = rows ? Kind::kRows : Kind::kColumns;
    plan.compute = vector_type(type);
    plan.width = vector_lanes(device, plan.compute);
    if (columns) independent = at::ceil_div(independent, plan.width * kColumns);
  }
  const size_t least =
      columns ? std::max<size_t>(1, kPartElements / shape.kept[0].size) : kPartElements;
  plan.shape.parts = std::max(parts_for(device, independent, shape.elements(), least, columns),
                              at::ceil_div(shape.elements(), kMostOfPart));
  plan.group = group_for(at::ceil_div(shape.elements(), plan.shape.parts));
  return plan;
}

// Launches work-items that each compute a share of the outputs; on GPUs one output.
void enqueue_items(const Plan& plan, Arguments& arguments, size_t parts) {
  const size_t outputs = plan.shape.outputs();
  if (plan.device.family() == KernelFamily::kGpu) {
    const size_t group = arguments.group();
    return arguments.add(uint64_t{1}).enqueue({at::round_up(outputs, group), parts}, {group});
  }
  const size_t items = std::min(outputs, plan.device.parameters().tasks);
  const size_t per_item = at::ceil_div(outputs, items);
  arguments.add(uint64_t{per_item}).enqueue({at::ceil_div(outputs, per_item), parts}, {});
}

void run(const Plan& plan, const BufferView& in, const Results& results) {
  Arguments arguments(current_stream(plan.device.index()), kernel_of(plan));
  arguments.add(in).add(results.indices);
  if (results.values) arguments.add(*results.values);
  plan.shape.bind(arguments);
  const size_t outputs = plan.shape.outputs(), parts = plan.shape.parts;
  if (plan.kind == Kind::kGroup) {
    const size_t group = std::min(arguments.group(), plan.group);
    return arguments.enqueue({outputs * group, parts}, {group});
  }
  if (plan.kind == Kind::kColumns) {
    const size_t columns = plan.shape.kept[0].size;
    const size_t block = plan.shape.column_block(plan.device, plan.width, kColumns);
    arguments.add(uint64_t{block});
    return arguments.enqueue({at::ceil_div(columns, block), outputs / columns, parts}, {});
  }
  enqueue_items(plan, arguments, parts);
}

// Computes positions, and values if `values` is defined. Both have the shape's output strides, in
// elements.
void arg_reduce(Device& device, ScalarType type, const ReduceShape& shape, bool greatest,
                const at::TensorOptions& options, const BufferView& in, const Results& results) {
  check_device_has(device, type, greatest ? "max" : "min");
  Plan plan = make_plan(device, type, shape, greatest, results.values.has_value());
  if (!plan.partial()) return run(plan, in, results);
  const int64_t count = static_cast<int64_t>(plan.shape.outputs() * plan.shape.parts);
  const at::Tensor positions = at::empty({count}, options.dtype(at::kLong));
  const at::Tensor values = at::empty({count}, options.dtype(plan.compute));
  run(plan, in, {view(positions), view(values)});
  const bool by_group = device.family() == KernelFamily::kGpu && plan.shape.parts >= kManyParts;
  plan.kind = by_group ? Kind::kMergeGroup : Kind::kMerge;
  plan.group = group_for(plan.shape.parts);
  Arguments arguments(current_stream(device.index()), kernel_of(plan));
  arguments.add(view(values)).add(view(positions)).add(results.indices);
  if (results.values) arguments.add(*results.values);
  plan.shape.bind(arguments);
  if (!by_group) return enqueue_items(plan, arguments, 1);
  const size_t group = std::min(arguments.group(), plan.group);
  arguments.enqueue({plan.shape.outputs() * group}, {group});
}

at::TensorOptions plain_options(const at::TensorBase& tensor) {
  return at::TensorOptions().device(tensor.device());
}

template <bool greatest>
void arg_by_iterator(at::TensorIterator& iter) {
  const ReduceShape shape = ReduceShape::of(iter);
  TORCH_INTERNAL_ASSERT(shape.reduced.size() == 1);
  arg_reduce(device(iter.device(0).index()), iter.dtype(1), shape, greatest,
             plain_options(iter.tensor_base(0)), resolve(iter.data_ptr(1)),
             {resolve(iter.data_ptr(0)), std::nullopt});
}

template <bool greatest>
void value_and_index(const at::Tensor& values, const at::Tensor& indices, const at::Tensor& self,
                     int64_t dim, bool keepdim) {
  if (self.numel() == 0) return;
  // The kernel writes contiguous results.
  const bool direct = values.is_contiguous() && indices.is_contiguous();
  const auto dense = [&](const at::Tensor& t) {
    return direct ? t : at::empty_like(t, at::MemoryFormat::Contiguous);
  };
  const at::Tensor dense_values = dense(values), dense_indices = dense(indices);
  arg_reduce(ocl_device(self), self.scalar_type(),
             ReduceShape::of_dimension(self, dim, sizeof(int64_t)), greatest, plain_options(self),
             view(self), {view(dense_indices), view(dense_values)});
  if (!direct) {
    values.copy_(dense_values);
    indices.copy_(dense_indices);
  }
}

}  // namespace
}  // namespace ocl

namespace at::native {

OCL_STUB("argmax", argmax_stub, &ocl::arg_by_iterator<true>)
OCL_STUB("argmin", argmin_stub, &ocl::arg_by_iterator<false>)
OCL_STUB("max.dim", max_stub, &ocl::value_and_index<true>)
OCL_STUB("min.dim", min_stub, &ocl::value_and_index<false>)

}  // namespace at::native
