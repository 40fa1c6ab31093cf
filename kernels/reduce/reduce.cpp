#include "kernels/reduce/reduce.h"

#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>

#include <bit>
#include <cmath>

#include "backend/base/error.h"
#include "kernels/core/grids/grid.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/reduce/reduce_shape.h"

namespace ocl {
namespace {

constexpr size_t kColumns = 32;         // the most vectors of adjacent outputs in a task
constexpr size_t kLeastBlock = 8;       // if blocks are smaller, rows are split, too
constexpr size_t kPartElements = 4096;  // a part has at least this many reduced elements
constexpr size_t kPerItem = 4;          // elements of a GPU's work-item, if rows are short

struct Plan {
  const Reduction& op;
  Device& device;
  ScalarType in, out, compute;
  ReduceShape shape;
  bool vectors = false;     // uses the CPU family's vector kernels; complex numbers use none
  bool columns = false;     // vectors hold adjacent outputs, else adjacent reduced elements
  bool contiguous = false;  // the input is contiguous along reduced dimension 0
  bool partial = false;     // first of two launches
  bool merging = false;     // second of two launches
  size_t width = 1;
  size_t group = 1;
};

// The neutral element in OpenCL C.
const char* neutral(const Plan& plan) {
  const double number = plan.op.neutral;
  if (std::isinf(number)) return number > 0 ? "HIGHEST" : "LOWEST";
  if (number == 0) return "0";
  TORCH_INTERNAL_ASSERT(number == 1, "the neutral element ", number, " of ", plan.op.name);
  return c10::isComplexType(plan.compute) ? "COMPLEX(1, 0)" : "1";
}

struct Types {
  ScalarType in, out, compute;
};

struct Reduce {
  const char *neutral, *step, *merge, *finish;  // texts with static storage
  Types types;
  uint8_t kept, reduced;  // numbers of dimensions
  bool vectors, columns, contiguous, partial;
  bool small;  // false with vectors

  KernelSource source(Device& device, size_t group) const {
    const size_t width = vectors ? vector_lanes(device, types.compute) : 1;
    Defines defines = compute_defines(types.compute);
    defines.set("WIDTH", static_cast<int64_t>(width))
        .set("IN", dtype_name(types.in))
        .set("OUT", dtype_name(types.out))
        .set("KEPT", int64_t{kept})
        .set("REDUCED", int64_t{reduced})
        .set("INIT", str("((T)(", neutral, "))"))
        .set("STEP(acc, a)", str("(", step, ")"))
        .set("MERGE(x, y)", str("(", merge, ")"))
        .set("FINISH(acc)", str("(", finish, ")"));
    if (partial) defines.set("PARTIAL", 1);
    if (contiguous) defines.set("IN_ONE", 1);
    if (vectors) {
      defines.set("COLUMNS", kColumns);
      return {"reduce_cpu.cl", columns ? "reduce_columns" : "reduce_rows", defines};
    }
    defines.set("GROUP", static_cast<int64_t>(group));
    defines.set("INDEX", small ? "uint" : "ulong");
    return {"reduce_gpu.cl", columns ? "reduce_item" : "reduce_group", defines};
  }
};

void run(const Plan& plan, const BufferView& in, const BufferView& out) {
  const char* step = plan.merging ? "MERGE(acc, a)" : plan.op.step;
  const Types types{plan.in, plan.out, plan.compute};
  const auto kept = static_cast<uint8_t>(plan.shape.kept.size());
  const auto reduced = static_cast<uint8_t>(plan.shape.reduced.size());
  const Kernel& kernel =
      find_kernel(plan.device, Reduce{neutral(plan), step, plan.op.merge, plan.op.finish, types,
                                      kept, reduced, plan.vectors, plan.columns, plan.contiguous,
                                      plan.partial, !plan.vectors && plan.shape.is_small()});
  Stream& stream = current_stream(plan.device.index());
  Arguments arguments(stream, kernel);
  arguments.add(in).add(out);
  plan.shape.bind(arguments);
  const size_t outputs = plan.shape.outputs(), parts = plan.shape.parts;
  if (!plan.vectors) {
    const size_t group = kernel.group;
    const size_t items_of_row =
        std::min(group, std::bit_ceil(at::ceil_div(plan.shape.elements() / parts, kPerItem)));
    const size_t items = plan.columns ? outputs : outputs * items_of_row;
    if (!plan.columns) arguments.add(static_cast<uint32_t>(std::countr_zero(items_of_row)));
    arguments.enqueue({at::round_up(items, group), parts}, {group});
    return;
  }
  if (plan.columns) {
    const size_t columns = plan.shape.kept[0].size;
    const size_t block = plan.shape.column_block(plan.device, plan.width, kColumns);
    arguments.add(uint64_t{block})
        .enqueue({at::ceil_div(columns, block), outputs / columns, parts}, {});
    return;
  }
  const size_t tasks = plan.device.parameters().tasks;
  const size_t per_task = std::max<size_t>(1, at::ceil_div(outputs * parts, tasks) / parts);
  arguments.add(uint64_t{per_task}).enqueue({at::ceil_div(outputs, per_task), parts}, {});
}

Plan make_plan(at::TensorIterator& iter, const Reduction& op, ScalarType compute, Parts parts) {
  Plan plan{op,      device(iter.device(0).index()), iter.dtype(1), iter.dtype(0),
            compute, ReduceShape::of(iter)};
  if (parts == Parts::kKept) {
    plan.in = c10::toRealValueType(plan.in);
    plan.out = c10::toRealValueType(plan.out);
  }
  check_device_has(plan.device, plan.in, op.name);
  check_device_has(plan.device, plan.compute, op.name);
  const auto element = static_cast<int64_t>(c10::elementSize(plan.in));
  if (parts == Parts::kKept) {
    plan.shape.keep_parts(element, static_cast<int64_t>(c10::elementSize(plan.out)));
  }
  const ReduceShape& shape = plan.shape;
  const bool cpu = plan.device.family() == KernelFamily::kCpu;
  const bool complex = c10::isComplexType(compute);
  plan.vectors = cpu && !complex;
  plan.columns = (shape.kept[0].size > 1 && shape.kept[0].in == element) || (cpu && complex);
  plan.contiguous = !plan.columns && shape.reduced[0].in == element;
  if (plan.vectors) {
    plan.width = vector_lanes(plan.device, compute);
  } else if (!cpu) {
    plan.group = plan.device.parameters().work_group_size;
  }
  const size_t independent = plan.columns && plan.vectors
                                 ? shape.outputs() / shape.kept[0].size *
                                       at::ceil_div(shape.kept[0].size, kLeastBlock * plan.width)
                             : plan.columns ? at::ceil_div(shape.outputs(), plan.group)
                                            : shape.outputs();
  // Adjacent columns are reduced together, so fewer rows per part suffice.
  const size_t least =
      plan.columns ? std::max<size_t>(1, kPartElements / shape.kept[0].size) : kPartElements;
  plan.shape.parts = parts_for(plan.device, independent, shape.elements(), least, plan.columns);
  return plan;
}

}  // namespace

void reduce(at::TensorIterator& iter, const Reduction& op, std::optional<ScalarType> compute,
            Parts parts_of_complex) {
  if (iter.output().numel() == 0) return;
  if (iter.numel() == 0) {  // nothing to reduce: the result is the neutral element
    iter.output().fill_(op.neutral);
    return;
  }
  ScalarType accumulate = compute ? *compute : compute_type(iter.dtype(0));
  if (parts_of_complex != Parts::kNone) accumulate = c10::toRealValueType(accumulate);
  Plan plan = make_plan(iter, op, accumulate, parts_of_complex);
  const BufferView in = resolve(iter.data_ptr(1)), out = resolve(iter.data_ptr(0));
  if (plan.shape.parts == 1) return run(plan, in, out);

  const size_t outputs = plan.shape.outputs(), parts = plan.shape.parts;
  const at::Tensor workspace =
      at::empty({static_cast<int64_t>(parts), static_cast<int64_t>(outputs)},
                iter.tensor(0).options().dtype(accumulate).memory_format(std::nullopt));
  Plan second = plan;
  plan.partial = true;
  run(plan, in, view(workspace));

  // The second launch keeps the outputs (contiguous in the workspace) and reduces the parts.
  const auto element = static_cast<int64_t>(c10::elementSize(accumulate));
  second.in = accumulate;
  second.merging = true;
  second.columns = outputs > 1 || (second.columns && !second.vectors);
  second.contiguous = !second.columns;
  second.shape = plan.shape.merging_parts(element);
  run(second, view(workspace), out);
}

}  // namespace ocl
