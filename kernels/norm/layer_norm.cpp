// Layer normalisation, normalisation by the root mean square (RMS), and their gradients.
#include <ATen/native/layer_norm.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/core/grids/grid.h"
#include "kernels/core/grids/row_items.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/norm/gradient_sums.h"
#include "native/layer_norm.h"

namespace ocl {
namespace {

constexpr const char *kForward = "layer_norm", *kBackward = "layer_norm_backward";

// The operator's name in errors. RMS: `mean` is undefined.
const char* name_of(const at::Tensor& mean, bool backward = false) {
  if (mean.defined()) return backward ? kBackward : kForward;
  return backward ? "rms_norm_backward" : "rms_norm";
}

struct LayerNorm {
  bool backward, rms;
  ScalarType in, stat, gamma, beta;  // gamma, beta: may be undefined
  bool column_sums;
  RowItems wanted;

  KernelSource source(Device& device, size_t group) const {
    const bool cpu = device.family() == KernelFamily::kCpu;
    const ScalarType compute = compute_type(in);
    Defines defines = compute_defines(compute);
    defines.set("IN", dtype_name(in)).set("STAT", dtype_name(stat));
    if (gamma != ScalarType::Undefined) defines.set("GAMMA", dtype_name(gamma));
    if (beta != ScalarType::Undefined) defines.set("BETA", dtype_name(beta));
    if (backward) defines.set("BACKWARD", 1);
    if (rms) defines.set("RMS", 1);
    define_width_or_group(defines, device, compute, group);
    const size_t keep = for_group(wanted, group).keep;
    if (column_sums && (cpu || keep)) defines.set("COLUMN_SUMS", 1);
    if (keep) defines.set("KEEP", static_cast<int64_t>(keep));
    return {cpu ? "layer_norm_cpu.cl" : "layer_norm_gpu.cl", backward ? kBackward : kForward,
            defines};
  }
};

RowItems items_for(const Device& device, size_t size) {
  return device.family() == KernelFamily::kCpu
             ? RowItems{1, 0}
             : row_items(size, device.parameters().work_group_size);
}

ScalarType type_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.scalar_type() : ScalarType::Undefined;
}

TaskShares shares_of_rows(const Device& device, size_t rows, size_t size) {
  return task_shares(device, rows, rows * size * 2);
}

// Adds the arguments for the family's grid, and launches over the rows.
void enqueue(Device& device, Arguments& arguments, size_t rows, size_t size,
             const RowItems& shared) {
  if (device.family() == KernelFamily::kGpu) {
    const size_t group = arguments.group();
    return arguments.add(shared.shift()).enqueue(shared.global(rows, group), {group});
  }
  const TaskShares shares = shares_of_rows(device, rows, size);
  arguments.add(shares.per_task).enqueue({shares.tasks}, {1});
}

// All tensors are contiguous; gamma and beta may be undefined. RMS: `mean` is undefined.
void forward(const at::Tensor& x, const at::Tensor& gamma, const at::Tensor& beta, int64_t rows,
             int64_t size, double eps, at::Tensor* y, at::Tensor* mean, at::Tensor* rstd) {
  Device& device = ocl_device(x);
  const ScalarType type = x.scalar_type();
  check_floating(device, type, name_of(*mean));
  check_device_has(device, type, name_of(*mean));
  if (rows == 0) return;
  const RowItems wanted = items_for(device, static_cast<size_t>(size));
  const Kernel& kernel =
      find_kernel(device, LayerNorm{false, !mean->defined(), type, rstd->scalar_type(),
                                    type_of(gamma), type_of(beta), false, wanted});
  Arguments arguments(stream_of(x), kernel);
  arguments.add(view(x));
  if (gamma.defined()) arguments.add(view(gamma));
  if (beta.defined()) arguments.add(view(beta));
  arguments.add(view(*y));
  if (mean->defined()) arguments.add(view(*mean));
  arguments.add(view(*rstd));
  arguments.add(static_cast<uint64_t>(rows)).add(static_cast<uint64_t>(size));
  add_number(arguments, eps, compute_type(type));
  enqueue(device, arguments, rows, size, for_group(wanted, kernel.group));
}

struct Gradients {
  at::Tensor dx;
  at::Tensor sums;  // [2][size]: the gradients of beta and gamma
};

// The number of a GPU's groups that take rows in several rounds, and sum up columns meanwhile.
// Fewer than kLeastRounds rounds would save less than joining the groups' sums costs.
constexpr size_t kGroupsOfUnit = 4, kLeastRounds = 4, kMostKept = 8;

size_t rounds_for(const Device& device, const RowItems& shared, size_t group, size_t rows) {
  const size_t groups = device.properties().max_compute_units * kGroupsOfUnit;
  return at::ceil_div(rows, groups * (group / shared.items));
}

bool sums_columns(const Device& device, size_t rows, size_t size) {
  if (device.family() == KernelFamily::kCpu) return true;
  const size_t group = device.parameters().work_group_size;
  const RowItems wanted = row_items(size, group);
  return wanted.keep > 0 && wanted.keep <= kMostKept &&
         rounds_for(device, wanted, group, rows) >= kLeastRounds;
}

// Computes the gradients that the caller asks for. Usually, g and x are read once for both. RMS:
// `mean` is undefined.
Gradients gradients(const at::Tensor& g, const at::Tensor& x, const at::Tensor& mean,
                    const at::Tensor& rstd, const at::Tensor& gamma, int64_t rows, int64_t size,
                    bool of_x, bool of_parameters) {
  Device& device = ocl_device(x);
  Gradients result;
  if (of_x) result.dx = at::empty_like(x);
  if (x.numel() == 0) return result;
  check_floating(device, x.scalar_type(), name_of(mean, true));
  const bool cpu = device.family() == KernelFamily::kCpu;
  const RowItems wanted = items_for(device, static_cast<size_t>(size));
  const auto find = [&](bool column_sums) {
    return &find_kernel(device,
                        LayerNorm{true, !mean.defined(), x.scalar_type(), rstd.scalar_type(),
                                  type_of(gamma), ScalarType::Undefined, column_sums, wanted});
  };
  bool at_once = of_x && of_parameters && sums_columns(device, rows, size);
  const Kernel* kernel = of_x ? find(at_once) : nullptr;
  if (at_once && !cpu && for_group(wanted, kernel->group).keep == 0) {
    at_once = false;  // the kernel can only have smaller groups
    kernel = find(false);
  }
  if (of_parameters && !at_once) {
    const at::Tensor center = mean.defined() ? mean : at::zeros_like(rstd);
    result.sums = gradient_sums_of_columns(g, x, center, rstd, rows, size);
  }
  if (!of_x) return result;
  const RowItems shared = for_group(wanted, kernel->group);
  Arguments arguments(stream_of(x), *kernel);
  arguments.add(view(g)).add(view(x));
  if (gamma.defined()) arguments.add(view(gamma));
  if (mean.defined()) arguments.add(view(mean));
  arguments.add(view(rstd)).add(view(result.dx));
  at::Tensor parts;
  const auto add_parts = [&](size_t count) {
    parts = at::empty({2, static_cast<int64_t>(count), size},
                      x.options().dtype(compute_type(x.scalar_type())));
    arguments.add(view(parts));
  };
  const auto add_sizes = [&] {
    arguments.add(static_cast<uint64_t>(rows)).add(static_cast<uint64_t>(size));
  };
  if (at_once && !cpu) {
    const size_t group = arguments.group();
    const size_t rounds = rounds_for(device, shared, group, rows);
    const size_t groups = at::ceil_div<size_t>(rows, rounds * (group / shared.items));
    add_parts(groups);
    add_sizes();
    arguments.add(uint64_t{rounds}).add(uint64_t{groups}).add(shared.shift());
    arguments.enqueue({groups * group}, {group});
  } else {
    if (at_once) add_parts(shares_of_rows(device, rows, size).tasks);
    add_sizes();
    enqueue(device, arguments, rows, size, shared);
  }
  if (at_once) result.sums = at::sum(parts, 1);
  return result;
}

// Nested tensors also call this, through the stubs.
void backward(const at::Tensor& g, const at::Tensor& x, const at::Tensor& mean,
              const at::Tensor& rstd, const at::Tensor& gamma, int64_t rows, int64_t size,
              at::Tensor* dx, at::Tensor* dgamma, at::Tensor* dbeta) {
  const Gradients found = gradients(g, x, mean, rstd, gamma, rows, size, dx->defined(),
                                    dgamma->defined() || dbeta->defined());
  if (dx->defined()) dx->copy_(found.dx);
  const auto fill = [&](const at::Tensor& parameter, int64_t which) {
    if (!parameter.defined()) return;
    if (!found.sums.defined()) return void(parameter.zero_());
    parameter.copy_(found.sums.select(0, which).view_as(parameter));
  };
  fill(*dgamma, 1);
  fill(*dbeta, 0);
}

at::DimVector shape_of_statistics(const at::Tensor& input, at::IntArrayRef normalized_shape) {
  at::DimVector shape(input.sizes());
  std::fill(shape.end() - static_cast<int64_t>(normalized_shape.size()), shape.end(), 1);
  return shape;
}

// The gradients of input, gamma and beta. RMS: `mean` is undefined.
std::tuple<at::Tensor, at::Tensor, at::Tensor> norm_backward(
    const at::Tensor& grad_out, const at::Tensor& input, at::IntArrayRef normalized_shape,
    const at::Tensor& mean, const at::Tensor& rstd, const at::Tensor& gamma, const at::Tensor& beta,
    std::array<bool, 3> output_mask) {
  const auto [rows, size] =
      at::native::_check_layer_norm_inputs(input, normalized_shape, gamma, beta);
  const at::Tensor x = input.contiguous(), g = grad_out.contiguous();
  const ScalarType compute = compute_type(x.scalar_type());
  const auto dense_statistics = [&](const at::Tensor& t) {
    return t.defined() ? t.contiguous().to(compute) : t;
  };
  check_device_has(ocl_device(input), x.scalar_type(), name_of(mean, true));
  expect_type(grad_out, x.scalar_type(), name_of(mean, true));
  const bool of_gamma = output_mask[1] && gamma.defined();
  const bool of_beta = output_mask[2] && beta.defined();
  const Gradients found = gradients(g, x, dense_statistics(mean), dense_statistics(rstd), gamma,
                                    rows, size, output_mask[0], of_gamma || of_beta);
  const auto result = [&](const at::Tensor& parameter, int64_t which) {
    if (!found.sums.defined()) return at::zeros_like(parameter);
    return found.sums.select(0, which).view(parameter.sizes()).to(parameter.scalar_type());
  };
  return {found.dx, of_gamma ? result(gamma, 1) : at::Tensor(),
          of_beta ? result(beta, 0) : at::Tensor()};
}

}  // namespace

namespace native {

OCL_NATIVE("native_layer_norm", layer_norm);
std::tuple<Tensor, Tensor, Tensor> layer_norm(const Tensor& input, IntArrayRef normalized_shape,
                                              const std::optional<Tensor>& weight,
                                              const std::optional<Tensor>& bias, double eps) {
  check_floating(ocl_device(input), input.scalar_type(), "layer_norm");
  const Tensor gamma = dense(weight), beta = dense(bias), x = input.contiguous();
  const auto [rows, size] =
      at::native::_check_layer_norm_inputs(input, normalized_shape, gamma, beta);
  Tensor y = at::empty_like(x);
  Tensor mean = at::empty(shape_of_statistics(input, normalized_shape),
                          x.options().dtype(compute_type(x.scalar_type())));
  Tensor rstd = at::empty_like(mean);
  forward(x, gamma, beta, rows, size, eps, &y, &mean, &rstd);
  return {y, mean, rstd};
}

OCL_NATIVE("native_layer_norm_backward", layer_norm_backward);
std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor& grad_out, const Tensor& input,
                                                       IntArrayRef normalized_shape,
                                                       const Tensor& mean, const Tensor& rstd,
                                                       const std::optional<Tensor>& weight,
                                                       const std::optional<Tensor>& bias,
                                                       std::array<bool, 3> output_mask) {
  return norm_backward(grad_out, input, normalized_shape, mean, rstd, dense(weight), dense(bias),
                       output_mask);
}

// F.rms_norm() calls these for all types but complex ones.
OCL_NATIVE("_fused_rms_norm", fused_rms_norm);
std::tuple<Tensor, Tensor> fused_rms_norm(const Tensor& input, IntArrayRef normalized_shape,
                                          const std::optional<Tensor>& weight,
                                          std::optional<double> eps) {
  const Tensor gamma = dense(weight), x = input.contiguous();
  const auto [rows, size] =
      at::native::_check_layer_norm_inputs(input, normalized_shape, gamma, /*bias=*/{});
  const ScalarType compute = compute_type(x.scalar_type());
  const double default_eps = compute == ScalarType::Double ? std::numeric_limits<double>::epsilon()
                                                           : std::numeric_limits<float>::epsilon();
  Tensor y = at::empty_like(x), mean;
  Tensor rstd = at::empty(shape_of_statistics(input, normalized_shape), x.options().dtype(compute));
  forward(x, gamma, {}, rows, size, eps.value_or(default_eps), &y, &mean, &rstd);
  return {y, rstd};
}

OCL_NATIVE("_fused_rms_norm_backward", fused_rms_norm_backward);
std::tuple<Tensor, Tensor> fused_rms_norm_backward(const Tensor& grad_out, const Tensor& input,
                                                   IntArrayRef normalized_shape, const Tensor& rstd,
                                                   const std::optional<Tensor>& weight,
                                                   std::array<bool, 2> output_mask) {
  const auto [dx, of_gamma, of_beta] =
      norm_backward(grad_out, input, normalized_shape, /*mean=*/{}, rstd, dense(weight),
                    /*beta=*/{}, {output_mask[0], output_mask[1], false});
  return {dx, of_gamma};
}

}  // namespace native
}  // namespace ocl

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(LayerNormKernel, &ocl::forward)
REGISTER_PRIVATEUSE1_DISPATCH(LayerNormBackwardKernel, &ocl::backward)

}  // namespace at::native
