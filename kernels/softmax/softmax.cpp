// Softmax, log-softmax and their gradients along one dimension.
#include <ATen/WrapDimUtils.h>
#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/movedim.h>

#include "kernels/core/grids/grid.h"
#include "kernels/core/grids/row_items.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/extent.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "native/softmax.h"

namespace ocl {
namespace {

struct Variant {
  const char* name;
  bool log, backward;
};

struct Softmax {
  const char* kernel;
  bool log, backward;
  ScalarType in, out;
  RowItems wanted;

  KernelSource source(Device& device, size_t group) const {
    const bool cpu = device.family() == KernelFamily::kCpu;
    const ScalarType compute =
        compute_type(in) == ScalarType::Double ? ScalarType::Double : ScalarType::Float;
    Defines defines = compute_defines(compute);
    defines.set("IN", dtype_name(in)).set("OUT", dtype_name(out));
    define_width_or_group(defines, device, compute, group);
    if (cpu && out == compute) defines.set("STORED", 1);
    const size_t keep = for_group(wanted, group).keep;
    if (keep) defines.set("KEEP", static_cast<int64_t>(keep));
    if (log) defines.set("LOG", 1);
    if (backward) defines.set("BACKWARD", 1);
    return {cpu ? "softmax_cpu.cl" : "softmax_gpu.cl", kernel, defines};
  }
};

// `grad` is undefined for the forward pass. All tensors are contiguous and not empty.
void launch_softmax(const Variant& variant, const at::Tensor& grad, const at::Tensor& in,
                    const at::Tensor& out, int64_t dim) {
  static constexpr const char *kRows = "softmax_rows", *kColumns = "softmax_columns",
                              *kGroup = "softmax_group", *kItem = "softmax_item";
  Device& device = ocl_device(in);
  check_device_has(device, in.scalar_type(), variant.name);
  check_floating(device, out.scalar_type(), variant.name);
  const bool cpu = device.family() == KernelFamily::kCpu;
  const Extent extent = extent_of(in, dim);
  const bool rows = extent.inner == 1;
  const char* name = cpu ? (rows ? kRows : kColumns) : (rows ? kGroup : kItem);
  const RowItems wanted =
      rows && !cpu ? row_items(extent.size, device.parameters().work_group_size) : RowItems{1, 0};
  const Kernel& kernel = find_kernel(device, Softmax{name, variant.log, variant.backward,
                                                     in.scalar_type(), out.scalar_type(), wanted});
  const RowItems shared = for_group(wanted, kernel.group);
  Arguments arguments(stream_of(in), kernel);
  if (variant.backward) arguments.add(view(grad));
  arguments.add(view(in)).add(view(out));
  arguments.add(uint64_t{extent.outer}).add(uint64_t{extent.size}).add(uint64_t{extent.inner});
  if (!cpu) {
    const size_t group = arguments.group();
    if (rows) {
      return arguments.add(shared.shift()).enqueue(shared.global(extent.outer, group), {group});
    }
    return arguments.enqueue({at::round_up(extent.outer * extent.inner, group)}, {group});
  }
  const size_t width = vector_lanes(device, compute_type(in.scalar_type()));
  const size_t units = rows ? extent.outer : extent.outer * at::ceil_div(extent.inner, width);
  // An exponential costs several additions.
  const TaskShares shares = task_shares(device, units, extent.numel() * 4);
  arguments.add(shares.per_task).enqueue({shares.tasks}, {1});
}

// Whether to transpose columns to rows first. A work-item of a GPU takes a column and waits for
// each element, which is too slow if there are few columns or very long ones.
bool moves_columns(const Device& device, const Extent& extent) {
  constexpr uint64_t kLong = 1024, kVeryLong = 65536, kItemsOfUnit = 256;
  if (device.family() == KernelFamily::kCpu || extent.inner == 1) return false;
  const uint64_t filling = device.properties().max_compute_units * kItemsOfUnit;
  return extent.size > (extent.outer * extent.inner < filling ? kLong : kVeryLong);
}

void run(const Variant& variant, const at::Tensor& grad, const at::Tensor& in,
         const at::Tensor& out, int64_t dim) {
  if (out.numel() == 0) return;
  if (grad.defined()) expect_type(in, grad.scalar_type(), variant.name);
  const int64_t wrapped = at::maybe_wrap_dim(dim, in.dim());
  if (moves_columns(ocl_device(in), extent_of(in, wrapped))) {
    const auto rows_of = [&](const at::Tensor& t) {
      return t.defined() ? t.movedim(wrapped, -1).contiguous() : t;
    };
    const at::Tensor rows = rows_of(in);
    const at::Tensor results = at::empty(rows.sizes(), rows.options().dtype(out.scalar_type()));
    launch_softmax(variant, rows_of(grad), rows, results, in.dim() - 1);
    out.copy_(results.movedim(-1, wrapped));
    return;
  }
  const at::Tensor dense_grad = dense(grad);
  const at::Tensor dense_in = in.contiguous();
  const DenseOutput result(out);
  launch_softmax(variant, dense_grad, dense_in, result.tensor(), wrapped);
  result.finish();
}

constexpr Variant kSoftmax{"softmax", false, false};
constexpr Variant kLogSoftmax{"log_softmax", true, false};
constexpr Variant kSoftmaxBackward{"softmax_backward", false, true};
constexpr Variant kLogSoftmaxBackward{"log_softmax_backward", true, true};

}  // namespace

namespace native {

OCL_STRUCTURED_AS("_softmax.out", softmax, run(kSoftmax, {}, self, out, dim))

OCL_STRUCTURED_AS("_log_softmax.out", log_softmax, run(kLogSoftmax, {}, self, out, dim))

OCL_STRUCTURED_AS("_softmax_backward_data.out", softmax_backward,
                  run(kSoftmaxBackward, grad_output, output, grad_input, dim))

OCL_STRUCTURED_AS("_log_softmax_backward_data.out", log_softmax_backward,
                  run(kLogSoftmaxBackward, grad_output, output, out, dim))

}  // namespace native
}  // namespace ocl
