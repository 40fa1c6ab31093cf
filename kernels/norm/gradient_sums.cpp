#include "kernels/norm/gradient_sums.h"

#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>

#include "kernels/core/grids/grid.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"

namespace ocl {
namespace {

constexpr size_t kLeast = 4096;  // elements of a part
constexpr size_t kColumns = 64;  // vectors of adjacent columns per task

struct GradientSums {
  const char* kernel;
  ScalarType in, stat;
  bool by_row;

  KernelSource source(Device& device, size_t group) const {
    const bool cpu = device.family() == KernelFamily::kCpu;
    const ScalarType compute = compute_type(in);
    Defines defines = compute_defines(compute);
    defines.set("IN", dtype_name(in)).set("STAT", dtype_name(stat));
    if (by_row) defines.set("BY_ROW", 1);
    define_width_or_group(defines, device, compute, group);
    if (cpu) defines.set("COLUMNS", kColumns);
    return {cpu ? "gradient_sums_cpu.cl" : "gradient_sums_gpu.cl", kernel, defines};
  }
};

at::Tensor workspace(const at::Tensor& x, at::IntArrayRef sizes) {
  return at::empty(sizes,
                   x.options().dtype(compute_type(x.scalar_type())).memory_format(std::nullopt));
}

}  // namespace

at::Tensor gradient_sums_of_rows(const at::Tensor& g, const at::Tensor& x, const at::Tensor& mean,
                                 size_t rows, size_t size, size_t repeat) {
  static constexpr const char* kName = "gradient_sums_rows";
  Device& device = ocl_device(x);
  const at::Tensor sums = workspace(x, {2, static_cast<int64_t>(rows)});
  Arguments arguments(stream_of(x), find_kernel(device, GradientSums{kName, x.scalar_type(),
                                                                     mean.scalar_type(), false}));
  arguments.add(view(g)).add(view(x)).add(view(mean)).add(view(sums));
  arguments.add(uint64_t{rows}).add(uint64_t{size}).add(uint64_t{repeat});
  arguments.add(static_cast<uint64_t>(mean.numel()));
  if (device.family() == KernelFamily::kGpu) {
    arguments.enqueue({rows * arguments.group()}, {arguments.group()});
  } else {
    const TaskShares shares = task_shares(device, rows, rows * size);
    arguments.add(shares.per_task).enqueue({shares.tasks}, {1});
  }
  return sums;
}

at::Tensor gradient_sums_of_columns(const at::Tensor& g, const at::Tensor& x,
                                    const at::Tensor& mean, const at::Tensor& rstd, size_t size,
                                    size_t columns) {
  static constexpr const char* kName = "gradient_sums_columns";
  Device& device = ocl_device(x);
  const bool cpu = device.family() == KernelFamily::kCpu;
  const size_t block = cpu ? vector_lanes(device, compute_type(x.scalar_type())) * kColumns
                           : device.parameters().work_group_size;
  const size_t blocks = at::ceil_div(columns, block);
  const size_t parts =
      parts_for(device, blocks, size, std::max<size_t>(1, kLeast / std::min(block, columns)));
  const at::Tensor work =
      workspace(x, {2, static_cast<int64_t>(parts), static_cast<int64_t>(columns)});
  Arguments arguments(stream_of(x),
                      find_kernel(device, GradientSums{kName, x.scalar_type(), mean.scalar_type(),
                                                       rstd.defined()}));
  arguments.add(view(g)).add(view(x)).add(view(mean)).add(view(rstd.defined() ? rstd : mean));
  arguments.add(view(work)).add(uint64_t{size}).add(uint64_t{columns}).add(uint64_t{parts});
  if (cpu) {
    arguments.enqueue({blocks, parts}, {1, 1});
  } else {
    arguments.enqueue({at::round_up(columns, arguments.group()), parts}, {arguments.group()});
  }
  return parts == 1 ? work.select(1, 0) : at::sum(work, 1);
}

}  // namespace ocl
