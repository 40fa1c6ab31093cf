#include "kernels/norm/moments.h"

#include <ATen/ceil_div.h>
#include <ATen/native/ReduceOps.h>
#include <ATen/native/TensorIterator.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/real.h>

#include "kernels/core/grids/grid.h"
#include "kernels/core/grids/row_items.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"

namespace ocl {
namespace {

constexpr size_t kColumns = 4;   // vectors of adjacent outputs per task
constexpr size_t kLeast = 4096;  // elements of a part
// Above this, a work-group of a GPU finishes a row, which may have to be read again. A single
// work-item would take seconds, and systems would reset the GPU.
constexpr size_t kLongRow = 16384;
constexpr size_t kFinishGroup = 256;

enum class Finish : uint8_t {
  kNorm,
  kGroupNorm,
  kNormRunning,
  kVariance,
  kStd,
  kVarianceMean,
  kStdMean
};

struct PartialMoments {
  const char* kernel;
  ScalarType in;

  KernelSource source(Device& device, size_t group) const {
    const bool cpu = device.family() == KernelFamily::kCpu;
    const ScalarType compute = compute_type(in);
    Defines defines = compute_defines(compute);
    defines.set("IN", dtype_name(in));
    define_width_or_group(defines, device, compute, group);
    if (cpu) defines.set("COLUMNS", kColumns);
    return {cpu ? "moments_cpu.cl" : "moments_gpu.cl", kernel, defines};
  }
};

struct FinishMoments {
  Finish finish;
  ScalarType compute, param, running, in;
  bool grouped;

  KernelSource source(Device& device, size_t group) const {
    Defines defines = compute_defines(compute);
    define_grid(defines, device);
    defines.set("PARAM", dtype_name(param));
    if (finish == Finish::kGroupNorm) defines.set("NAN_IF_INFINITE", 1);
    if (finish == Finish::kNormRunning) defines.set("RUNNING", dtype_name(running));
    if (finish >= Finish::kVariance) defines.set("VARIANCE", 1).set("IN", dtype_name(in));
    if (finish == Finish::kStd || finish == Finish::kStdMean) defines.set("ROOT", 1);
    if (finish >= Finish::kVarianceMean) defines.set("WITH_MEAN", 1);
    if (grouped) defines.set("GROUP", static_cast<int64_t>(std::min(group, kFinishGroup)));
    return {"moments_finish.cl", "moments_finish", defines};
  }
};

// The dimensions of a reduction as [outer][size][inner] of a dense tensor.
struct Layout {
  at::Tensor x;
  Extent extent;
  std::vector<int64_t> kept, out_strides;  // sizes, and the output's strides in the iteration
};

void run_finish(Finish finish, const Moments& m, const at::Tensor& mean, const at::Tensor& out,
                double constant, const Running& running, const Layout& layout = {}) {
  Device& device = ocl_device(m.work);
  const ScalarType compute = m.work.scalar_type();
  const bool moving = finish == Finish::kNormRunning, of_input = finish >= Finish::kVariance;
  // Variances may read the elements again, so a group computes each long one.
  const bool grouped = of_input && device.family() == KernelFamily::kGpu && m.size > kLongRow;
  const Kernel& kernel =
      find_kernel(device, FinishMoments{finish, compute, out.scalar_type(),
                                        moving ? running.mean.scalar_type() : compute,
                                        of_input ? layout.x.scalar_type() : compute, grouped});
  Arguments arguments(stream_of(m.work), kernel);
  arguments.add(view(m.work)).add(view(mean)).add(view(out));
  if (of_input) arguments.add(view(layout.x)).add(uint64_t{layout.extent.inner});
  if (moving) {
    arguments.add(view(running.mean)).add(view(running.var));
    add_number(arguments, running.momentum, compute);
  }
  add_number(arguments, constant, compute);
  const UnitGrid grid = unit_grid(device, m.outputs, 1, m.parts);
  arguments.add(uint64_t{m.outputs})
      .add(uint64_t{m.parts})
      .add(uint64_t{m.share})
      .add(uint64_t{m.size})
      .add(grid.per_item);
  if (!grouped) return arguments.enqueue(grid.global, grid.local);
  const size_t group = std::min(arguments.group(), kFinishGroup);
  arguments.enqueue({m.outputs * group}, {group});
}

Layout layout_of(const at::TensorIteratorBase& iter, int input) {
  struct Dim {
    int64_t size, in, out;
    bool reduced() const { return out == 0; }
  };
  std::vector<Dim> dims;
  for (int d = 0; d < iter.ndim(); ++d) {
    const int64_t size = iter.shape()[d];
    if (size == 1) continue;
    dims.push_back({size, iter.strides(input)[d] / iter.element_size(input),
                    iter.strides(0)[d] / iter.element_size(0)});
  }
  std::stable_sort(dims.begin(), dims.end(), [](auto& a, auto& b) { return a.in > b.in; });
  const auto changes = [&] {
    int count = 0;
    for (size_t i = 1; i < dims.size(); ++i) count += dims[i].reduced() && !dims[i - 1].reduced();
    return count + (!dims.empty() && dims[0].reduced());
  };
  if (changes() > 1) {  // a copy makes the reduced dimensions adjacent
    std::stable_partition(dims.begin(), dims.end(), [](auto& dim) { return !dim.reduced(); });
  }
  Layout layout;
  std::vector<int64_t> sizes, strides;
  bool after_reduced = false;
  for (const Dim& dim : dims) {
    sizes.push_back(dim.size);
    strides.push_back(dim.in);
    if (dim.reduced()) {
      after_reduced = true;
      layout.extent.size *= dim.size;
      continue;
    }
    (after_reduced ? layout.extent.inner : layout.extent.outer) *= dim.size;
    layout.kept.push_back(dim.size);
    layout.out_strides.push_back(dim.out);
  }
  layout.x = at::as_strided(iter.tensor(input), sizes, strides).contiguous();
  return layout;
}

void variance(at::TensorIterator& iter, double correction, bool root) {
  if (iter.numel() == 0) return;
  const bool with_mean = iter.noutputs() == 2;
  Layout layout = layout_of(iter, iter.noutputs());
  // If `out` is complex, the iterator has converted real inputs to its type.
  if (layout.x.is_complex()) layout.x = at::real(layout.x).contiguous();
  const auto place = [&](int output) {
    at::Tensor result = at::as_strided(iter.tensor(output), layout.kept, layout.out_strides);
    if (!result.is_complex()) return result;
    at::imag(result).zero_();
    return at::real(result);
  };
  const DenseOutput out(place(0));
  const std::optional<DenseOutput> mean =
      with_mean ? std::optional<DenseOutput>(place(1)) : std::nullopt;
  const Finish finish = with_mean ? (root ? Finish::kStdMean : Finish::kVarianceMean)
                                  : (root ? Finish::kStd : Finish::kVariance);
  run_finish(finish, moments(layout.x, layout.extent), mean.value_or(out).tensor(), out.tensor(),
             correction, {}, layout);
  out.finish();
  if (mean) mean->finish();
}

}  // namespace

Moments moments(const at::Tensor& x, const Extent& extent, bool split) {
  static constexpr const char *kRows = "moments_rows", *kColumnsKernel = "moments_columns",
                              *kGroup = "moments_group", *kItem = "moments_item";
  Device& device = ocl_device(x);
  const ScalarType in = x.scalar_type(), compute = compute_type(in);
  check_device_has(device, in, "variance");
  const DeviceParameters& parameters = device.parameters();
  const bool cpu = device.family() == KernelFamily::kCpu;
  const bool rows = extent.inner == 1;
  const size_t block = cpu ? vector_lanes(device, compute) * kColumns : parameters.work_group_size;
  const size_t outputs = extent.outer * extent.inner;
  // Without a split: the number of units of work, and the elements of an output that a unit takes
  // in one step.
  const size_t units = rows  ? extent.outer
                       : cpu ? extent.outer * at::ceil_div(extent.inner, block)
                             : at::ceil_div(outputs, block);
  const size_t least = std::max<size_t>(1, rows ? kLeast : kLeast / std::min(block, extent.inner));
  const size_t parts = split ? parts_for(device, units, extent.size, least) : 1;
  const at::Tensor work = at::empty({2, static_cast<int64_t>(parts), static_cast<int64_t>(outputs)},
                                    x.options().dtype(compute).memory_format(std::nullopt));
  const char* name = cpu ? (rows ? kRows : kColumnsKernel) : (rows ? kGroup : kItem);
  Arguments arguments(stream_of(x), find_kernel(device, PartialMoments{name, in}));
  arguments.add(view(x)).add(view(work));
  arguments.add(uint64_t{extent.outer}).add(uint64_t{extent.size}).add(uint64_t{extent.inner});
  arguments.add(uint64_t{parts});
  if (!cpu) {
    const size_t group = arguments.group();
    const size_t items = rows ? row_items(at::ceil_div(extent.size, parts), group).items : 1;
    if (rows) arguments.add(static_cast<uint32_t>(std::countr_zero(items)));
    arguments.enqueue({at::round_up(outputs * items, group), parts}, {group});
  } else if (rows) {
    const TaskShares shares = task_shares(device, extent.outer, extent.numel());
    arguments.add(shares.per_task).enqueue({shares.tasks, parts}, {1, 1});
  } else {
    arguments.enqueue({at::ceil_div(extent.inner, block), extent.outer, parts}, {1, 1, 1});
  }
  return {work, outputs, parts, at::ceil_div(extent.size, parts), extent.size};
}

void finish_norm(const Moments& moments, const at::Tensor& mean, const at::Tensor& rstd, double eps,
                 const Running& running) {
  run_finish(running.mean.defined() ? Finish::kNormRunning : Finish::kNorm, moments, mean, rstd,
             eps, running);
}

void finish_group_norm(const Moments& moments, const at::Tensor& mean, const at::Tensor& rstd,
                       double eps) {
  run_finish(Finish::kGroupNorm, moments, mean, rstd, eps, {});
}

}  // namespace ocl

namespace at::native {

OCL_STUB("std.correction,var.correction,std_mean.correction,var_mean.correction", std_var_stub,
         &ocl::variance)
// PyTorch adds up the variances of both parts.
OCL_COMPLEX("std.correction,var.correction,std_mean.correction,var_mean.correction");

}  // namespace at::native
