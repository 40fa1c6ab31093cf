// Batch normalisation and its gradient; statistics per channel, in memory order NCHW or NHWC.
#include <ATen/native/Resize.h>
#include <ATen/native/cpu/mixed_data_type.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/norm/gradient_sums.h"
#include "kernels/norm/moments.h"
#include "kernels/pointwise/expression.h"
#include "native/batch_norm.h"

namespace ocl {
namespace {

// Inputs: x, mean, 1 / deviation, then weight and bias if they exist.
constexpr PointwiseOp kNormalise{"batch_norm", "(a - b) * c"};
constexpr PointwiseOp kNormaliseWeight{"batch_norm_w", "(a - b) * c * d"};
constexpr PointwiseOp kNormaliseBias{"batch_norm_b", "(a - b) * c + d"};
constexpr PointwiseOp kNormaliseBoth{"batch_norm_wb", "(a - b) * c * d + e"};
constexpr PointwiseOp kInverseDeviation{"inverse_deviation", "C(1) / sqrt(a + s0)", kFloating};
// dx = (g - sum / n - (x - mean) * slope) * scale, with slope = rstd^2 * dot / n, scale = rstd * w
constexpr PointwiseOp kSlope{"batch_norm_slope", "a * b * b * s0"};
constexpr PointwiseOp kShift{"batch_norm_shift", "a * s0 - b * c"};
constexpr PointwiseOp kProduct{"batch_norm_scale", "a * b"};
constexpr PointwiseOp kGradient{"batch_norm_backward", "(a - d - b * c) * e"};

// A tensor [n][channels][...] in one of the two memory orders that kernels know.
struct Channels {
  at::Tensor x;
  bool last;  // channels are adjacent in memory
  int64_t batch, channels, pixels;

  int64_t count() const { return batch * pixels; }
  // Reshapes numbers per channel so that they broadcast to x.
  at::Tensor spread(const at::Tensor& per_channel) const {
    std::vector<int64_t> shape(x.dim(), 1);
    shape[1] = channels;
    return per_channel.view(shape);
  }
};

Channels channels_of(const at::Tensor& tensor) {
  const at::MemoryFormat format = tensor.suggest_memory_format();
  Channels c{tensor.contiguous(format), format != at::MemoryFormat::Contiguous, tensor.size(0),
             tensor.size(1), 1};
  for (int64_t d = 2; d < tensor.dim(); ++d) c.pixels *= tensor.size(d);
  c.last = c.last || c.pixels == 1;
  return c;
}

Moments channel_moments(const Channels& c) {
  const auto batch = static_cast<size_t>(c.batch), channels = static_cast<size_t>(c.channels),
             pixels = static_cast<size_t>(c.pixels);
  if (c.last) return moments(c.x, {1, batch * pixels, channels});
  // Each plane has a partial result; the partial results of a channel's planes are merged.
  const Moments planes = moments(c.x, {batch * channels, pixels, 1}, false);
  return {planes.work, channels, batch, pixels, batch * pixels};
}

at::Tensor inverse_deviation(const at::Tensor& variance, double eps, ScalarType compute) {
  const at::Tensor result = at::empty(variance.sizes(), variance.options().dtype(compute));
  evaluate(kInverseDeviation, result, {variance}, compute, {converted(eps, compute)});
  return result;
}

// Checks that there is a number for each channel, because the kernels read one for each.
void check_running(const char* name, const at::Tensor& running, int64_t channels) {
  TORCH_CHECK(!running.defined() || (running.dim() == 1 && running.numel() == channels), name,
              " should contain ", channels, " elements in one dimension, not ", running.sizes());
}

// Checks the arguments and computes y. Returns mean and 1 / deviation of the batch, and updates the
// running statistics in training; returns empty tensors where it uses the running statistics.
std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& input,
                                          const std::optional<at::Tensor>& weight,
                                          const std::optional<at::Tensor>& bias,
                                          const at::Tensor& running_mean,
                                          const at::Tensor& running_var, bool training,
                                          double momentum, double eps, const at::Tensor& y) {
  check_floating(ocl_device(input), input.scalar_type(), "batch_norm");
  expect_type(y, input.scalar_type(), "batch_norm");
  const Channels c = channels_of(input);
  const ScalarType compute = compute_type(input.scalar_type());
  TORCH_CHECK_VALUE(running_mean.defined() == running_var.defined(),
                    "running_mean and running_var must either both be None or neither be None");
  check_running("running_mean", running_mean, c.channels);
  check_running("running_var", running_var, c.channels);
  TORCH_CHECK(!training || input.numel() > 0,
              "input tensor must have at least one element, but got input_sizes = ", input.sizes());
  const at::Tensor w = dense(weight), b = dense(bias);
  if (at::native::is_mixed_type(input, w, b, running_mean, running_var)) {
    at::native::check_mixed_data_type(input, w, b, running_mean, running_var);
  }
  if (w.defined() && b.defined()) expect_type(b, w.scalar_type(), "batch_norm");
  if (running_mean.defined()) {
    expect_type(running_var, running_mean.scalar_type(), "batch_norm");
  }
  const at::TensorOptions options = input.options().dtype(compute).memory_format(std::nullopt);
  at::Tensor mean, rstd, save_mean = at::empty({0}, options), save_rstd = at::empty({0}, options);
  if (training) {
    mean = save_mean = at::empty({c.channels}, options);
    rstd = save_rstd = at::empty({c.channels}, options);
    Running running;
    if (running_mean.defined()) {
      running = {running_mean.contiguous(), running_var.contiguous(), momentum};
    }
    finish_norm(channel_moments(c), mean, rstd, eps, running);
    if (eps == 0) rstd.masked_fill_(rstd.isinf(), 0);  // 0 if all numbers are equal, as on the CPU
    if (running_mean.defined()) {
      if (!running.mean.is_same(running_mean)) running_mean.copy_(running.mean);
      if (!running.var.is_same(running_var)) running_var.copy_(running.var);
    }
  } else {
    TORCH_CHECK(running_mean.defined(),
                "batch_norm: running_mean and running_var must be given when not training");
    mean = running_mean.contiguous();
    rstd = inverse_deviation(running_var.contiguous(), eps, compute);
  }
  const at::Tensor m = c.spread(mean), r = c.spread(rstd);
  if (w.defined() && b.defined()) {
    evaluate(kNormaliseBoth, y, {c.x, m, r, c.spread(w), c.spread(b)}, compute);
  } else if (w.defined()) {
    evaluate(kNormaliseWeight, y, {c.x, m, r, c.spread(w)}, compute);
  } else if (b.defined()) {
    evaluate(kNormaliseBias, y, {c.x, m, r, c.spread(b)}, compute);
  } else {
    evaluate(kNormalise, y, {c.x, m, r}, compute);
  }
  return {save_mean, save_rstd};
}

at::Tensor value(const std::optional<at::Tensor>& tensor) {
  return tensor ? *tensor : at::Tensor();
}

void write(const at::Tensor& to, const at::Tensor& from) {
  at::native::resize_output(to, from.sizes());
  to.copy_(from);
}

}  // namespace

namespace native {

OCL_NATIVE("native_batch_norm", batch_norm);
std::tuple<Tensor, Tensor, Tensor> batch_norm(const Tensor& input,
                                              const std::optional<Tensor>& weight,
                                              const std::optional<Tensor>& bias,
                                              const std::optional<Tensor>& running_mean,
                                              const std::optional<Tensor>& running_var,
                                              bool training, double momentum, double eps) {
  const Tensor y = at::empty_like(input, input.suggest_memory_format());
  auto [mean, rstd] = forward(input, weight, bias, value(running_mean), value(running_var),
                              training, momentum, eps, y);
  return {y, mean, rstd};
}

OCL_NATIVE("native_batch_norm.out", batch_norm_out);
std::tuple<Tensor&, Tensor&, Tensor&> batch_norm_out(
    const Tensor& input, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
    const std::optional<Tensor>& running_mean, const std::optional<Tensor>& running_var,
    bool training, double momentum, double eps, Tensor& out, Tensor& save_mean,
    Tensor& save_invstd) {
  at::native::resize_output(out, input.sizes());
  auto [mean, rstd] = forward(input, weight, bias, value(running_mean), value(running_var),
                              training, momentum, eps, out);
  write(save_mean, mean);
  write(save_invstd, rstd);
  return {out, save_mean, save_invstd};
}

OCL_NATIVE_AS("_native_batch_norm_legit", batch_norm_legit,
              batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps))

OCL_NATIVE_AS("_native_batch_norm_legit.out", batch_norm_legit_out,
              batch_norm_out(input, weight, bias, running_mean, running_var, training, momentum,
                             eps, out, save_mean, save_invstd))

OCL_NATIVE_AS("_native_batch_norm_legit.no_stats", batch_norm_no_stats,
              batch_norm(input, weight, bias, Tensor(), Tensor(), training, momentum, eps))

OCL_NATIVE_AS("_native_batch_norm_legit.no_stats_out", batch_norm_no_stats_out,
              batch_norm_out(input, weight, bias, Tensor(), Tensor(), training, momentum, eps, out,
                             save_mean, save_invstd))

OCL_NATIVE("_batch_norm_with_update", batch_norm_with_update);
std::tuple<Tensor, Tensor, Tensor, Tensor> batch_norm_with_update(
    const Tensor& input, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
    Tensor& running_mean, Tensor& running_var, double momentum, double eps) {
  auto [y, mean, rstd] =
      batch_norm(input, weight, bias, running_mean, running_var, true, momentum, eps);
  return {y, mean, rstd, at::empty({0}, input.options().dtype(ScalarType::Byte))};
}

// PyTorch's implementation for all devices would call the CPU's kernel.
OCL_NATIVE("_batch_norm_no_update", batch_norm_no_update);
std::tuple<Tensor, Tensor, Tensor, Tensor> batch_norm_no_update(
    const Tensor& input, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
    const std::optional<Tensor>& running_mean, const std::optional<Tensor>& running_var,
    double momentum, double eps) {
  auto [y, mean, rstd] =
      batch_norm(input, weight, bias, running_mean, running_var, false, momentum, eps);
  return {y, mean, rstd, at::empty({0}, input.options().dtype(ScalarType::Byte))};
}

OCL_NATIVE("_batch_norm_with_update.out", batch_norm_with_update_out);
std::tuple<Tensor&, Tensor&, Tensor&, Tensor&> batch_norm_with_update_out(
    const Tensor& input, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
    Tensor& running_mean, Tensor& running_var, double momentum, double eps, Tensor& out,
    Tensor& save_mean, Tensor& save_invstd, Tensor& reserve) {
  batch_norm_out(input, weight, bias, running_mean, running_var, true, momentum, eps, out,
                 save_mean, save_invstd);
  return {out, save_mean, save_invstd, reserve};
}

OCL_NATIVE("batch_norm_update_stats", batch_norm_update_stats);
std::tuple<Tensor, Tensor> batch_norm_update_stats(const Tensor& input,
                                                   const std::optional<Tensor>& running_mean,
                                                   const std::optional<Tensor>& running_var,
                                                   double momentum) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < input.dim(); ++d) {
    if (d != 1) dims.push_back(d);
  }
  const auto [var, mean] = at::var_mean(input, dims, /*unbiased=*/false);
  const double count = static_cast<double>(input.numel()) / static_cast<double>(input.size(1));
  // running = (1 - momentum) * running + momentum * of_batch
  static constexpr PointwiseOp kMove{"running_statistics", "a + s0 * (s1 * b - a)"};
  const auto move = [&](const Tensor& running, const Tensor& of_batch, double factor) {
    evaluate(kMove, running, {running, of_batch}, compute_type(input.scalar_type()),
             {momentum, factor});
  };
  if (running_mean && running_mean->defined()) move(*running_mean, mean, 1);
  if (running_var && running_var->defined()) move(*running_var, var, count / (count - 1));
  return {mean, var};
}

OCL_NATIVE("native_batch_norm_backward", batch_norm_backward);
std::tuple<Tensor, Tensor, Tensor> batch_norm_backward(
    const Tensor& grad_out, const Tensor& input, const std::optional<Tensor>& weight,
    const std::optional<Tensor>& running_mean, const std::optional<Tensor>& running_var,
    const std::optional<Tensor>& save_mean, const std::optional<Tensor>& save_invstd, bool train,
    double eps, std::array<bool, 3> output_mask) {
  expect_type(grad_out, input.scalar_type(), "batch_norm_backward");
  const Channels c = channels_of(input);
  const auto check_statistic = [&](const char* name, const std::optional<Tensor>& numbers) {
    TORCH_CHECK(numbers && numbers->defined(), "batch_norm_backward: ", name, " must be given");
    check_running(name, *numbers, c.channels);
  };
  check_statistic(train ? "save_mean" : "running_mean", train ? save_mean : running_mean);
  check_statistic(train ? "save_invstd" : "running_var", train ? save_invstd : running_var);
  const at::MemoryFormat format = input.suggest_memory_format();
  const Tensor g = grad_out.contiguous(format), w = dense(weight);
  const ScalarType compute = compute_type(input.scalar_type());
  const Tensor mean = dense(train ? save_mean : running_mean).to(compute);
  const Tensor rstd =
      train ? dense(save_invstd).to(compute) : inverse_deviation(dense(running_var), eps, compute);
  const at::TensorOptions per_channel = rstd.options().dtype(compute);
  const Tensor parameter = w.defined() ? w : rstd;
  Tensor dx, dw, db, sum, dot;
  if (output_mask[0]) dx = at::empty_like(c.x, format);
  if (input.numel() == 0) {
    if (output_mask[1]) dw = at::zeros_like(parameter);
    if (output_mask[2]) db = at::zeros_like(parameter);
    return {dx, dw, db};
  }
  if (output_mask[1] || output_mask[2] || (output_mask[0] && train)) {
    Tensor sums;
    if (c.last) {
      sums = gradient_sums_of_columns(g, c.x, mean, {}, c.count(), c.channels);
    } else {
      sums = gradient_sums_of_rows(g, c.x, mean, c.batch * c.channels, c.pixels, 1);
      if (c.batch > 1) sums = at::sum(sums.view({2, c.batch, c.channels}), 1);
    }
    sum = sums.select(0, 0);
    dot = sums.select(0, 1);
  }
  const auto number_per_channel = [&] { return at::empty({c.channels}, per_channel); };
  if (output_mask[0]) {
    Tensor scale = rstd;
    if (w.defined()) evaluate(kProduct, scale = number_per_channel(), {rstd, w}, compute);
    if (train) {
      const double n = static_cast<double>(c.count());
      const Tensor slope = number_per_channel(), shift = number_per_channel();
      evaluate(kSlope, slope, {dot, rstd}, compute, {1 / n});
      evaluate(kShift, shift, {sum, mean, slope}, compute, {1 / n});
      evaluate(kGradient, dx, {g, c.x, c.spread(slope), c.spread(shift), c.spread(scale)}, compute);
    } else {
      evaluate(kProduct, dx, {g, c.spread(scale)}, compute);
    }
  }
  if (output_mask[1]) {
    dw = at::empty({c.channels}, parameter.options());
    evaluate(kProduct, dw, {dot, rstd}, compute);
  }
  if (output_mask[2]) db = sum.to(parameter.scalar_type());
  return {dx, dw, db};
}

OCL_NATIVE_AS("batch_norm_backward", batch_norm_backward_with_reserve,
              batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean,
                                  save_var, update, eps, output_mask))

}  // namespace native
}  // namespace ocl
