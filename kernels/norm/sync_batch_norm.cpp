// The operators of torch.nn.SyncBatchNorm: the statistics of a process, the joined statistics of
// all processes, and the two halves of the gradient. Channels are dimension 1. Statistics are
// float32 for 16-bit inputs.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/var_mean.h>

#include "kernels/core/operators/registration.h"
#include "kernels/core/types/dtype.h"
#include "native/sync_batch_norm.h"

namespace ocl {
namespace {

using at::Tensor;

at::DimVector all_but_channels(const Tensor& input) {
  at::DimVector dims;
  for (int64_t d = 0; d < input.dim(); ++d) {
    if (d != 1) dims.push_back(d);
  }
  return dims;
}

// Reshapes numbers per channel so that they broadcast to `input`.
Tensor per_channel(const Tensor& numbers, const Tensor& input) {
  at::DimVector sizes(input.dim(), 1);
  sizes[1] = input.size(1);
  return numbers.to(compute_type(input.scalar_type())).reshape(sizes);
}

Tensor computed(const Tensor& tensor) { return tensor.to(compute_type(tensor.scalar_type())); }

void move_average(const std::optional<Tensor>& running, const Tensor& value, double momentum) {
  if (running && running->defined()) running->mul_(1 - momentum).add_(value, momentum);
}

}  // namespace

namespace native {

OCL_NATIVE("batch_norm_stats", batch_norm_stats);
std::tuple<Tensor, Tensor> batch_norm_stats(const Tensor& input, double eps) {
  const auto [variance, mean] =
      at::var_mean(computed(input), all_but_channels(input), /*correction=*/0);
  return {mean, variance.add(eps).rsqrt()};
}

OCL_NATIVE("batch_norm_gather_stats_with_counts", batch_norm_gather_stats_with_counts);
std::tuple<Tensor, Tensor> batch_norm_gather_stats_with_counts(
    const Tensor& /*input*/, const Tensor& mean, const Tensor& invstd,
    const std::optional<Tensor>& running_mean, const std::optional<Tensor>& running_var,
    double momentum, double eps, const Tensor& counts) {
  // [processes, channels], weighted by the number of elements of each process.
  const Tensor count = counts.to(mean.scalar_type()).reshape({-1, 1}), total = count.sum();
  const Tensor joined = (mean * count).sum(0) / total;
  const Tensor variance = invstd.pow(-2) - eps + (mean - joined).square();
  const Tensor squares = (variance * count).sum(0);
  move_average(running_mean, joined, momentum);
  move_average(running_var, squares / (total - 1), momentum);
  return {joined, (squares / total + eps).rsqrt()};
}

OCL_NATIVE("batch_norm_gather_stats", batch_norm_gather_stats);
std::tuple<Tensor, Tensor> batch_norm_gather_stats(const Tensor& input, const Tensor& mean,
                                                   const Tensor& invstd,
                                                   const std::optional<Tensor>& running_mean,
                                                   const std::optional<Tensor>& running_var,
                                                   double momentum, double eps, int64_t count) {
  const Tensor counts = at::full({mean.size(0)}, count, mean.options());
  return native::batch_norm_gather_stats_with_counts(input, mean, invstd, running_mean, running_var,
                                                     momentum, eps, counts);
}

OCL_NATIVE("batch_norm_elemt.out", batch_norm_elemt_out);
Tensor& batch_norm_elemt_out(const Tensor& input, const std::optional<Tensor>& weight,
                             const std::optional<Tensor>& bias, const Tensor& mean,
                             const Tensor& invstd, double /*eps*/, Tensor& out) {
  Tensor result = (computed(input) - per_channel(mean, input)) * per_channel(invstd, input);
  if (weight && weight->defined()) result = result * per_channel(*weight, input);
  if (bias && bias->defined()) result = result + per_channel(*bias, input);
  out.resize_(input.sizes());
  return out.copy_(result);
}

OCL_NATIVE("batch_norm_elemt", batch_norm_elemt);
Tensor batch_norm_elemt(const Tensor& input, const std::optional<Tensor>& weight,
                        const std::optional<Tensor>& bias, const Tensor& mean, const Tensor& invstd,
                        double eps) {
  Tensor out = at::empty_like(input);
  return batch_norm_elemt_out(input, weight, bias, mean, invstd, eps, out);
}

OCL_NATIVE("batch_norm_backward_reduce", batch_norm_backward_reduce);
std::tuple<Tensor, Tensor, Tensor, Tensor> batch_norm_backward_reduce(
    const Tensor& grad_out, const Tensor& input, const Tensor& mean, const Tensor& invstd,
    const std::optional<Tensor>& weight, bool input_g, bool weight_g, bool bias_g) {
  const Tensor grad = computed(grad_out);
  const auto dims = all_but_channels(input);
  const Tensor sum = grad.sum(dims);
  const Tensor products = (grad * (computed(input) - per_channel(mean, input))).sum(dims);
  const auto as_weight = [&](const Tensor& t) {
    return weight && weight->defined() ? t.to(weight->scalar_type()) : t;
  };
  return {input_g ? sum : Tensor(), input_g ? products : Tensor(),
          weight_g ? as_weight(products * invstd) : Tensor(), bias_g ? as_weight(sum) : Tensor()};
}

OCL_NATIVE("batch_norm_backward_elemt", batch_norm_backward_elemt);
Tensor batch_norm_backward_elemt(const Tensor& grad_out, const Tensor& input, const Tensor& mean,
                                 const Tensor& invstd, const std::optional<Tensor>& weight,
                                 const Tensor& sum_dy, const Tensor& sum_dy_xmu,
                                 const Tensor& count) {
  const Tensor total = count.sum().to(mean.scalar_type());
  const Tensor slope = sum_dy_xmu / total * invstd.square();
  const Tensor centred = computed(input) - per_channel(mean, input);
  Tensor grad =
      computed(grad_out) - per_channel(sum_dy / total, input) - centred * per_channel(slope, input);
  grad = grad * per_channel(invstd, input);
  if (weight && weight->defined()) grad = grad * per_channel(*weight, input);
  return grad.to(input.scalar_type());
}

}  // namespace native
}  // namespace ocl
