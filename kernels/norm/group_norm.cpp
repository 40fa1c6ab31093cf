// Group normalisation: kernels for PyTorch's stubs, whose inputs are contiguous
// [n][channels][pixels], or channels_last in the forward direction; a group is channels / groups
// adjacent channels.
#include <ATen/native/group_norm.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_group_norm_backward_native.h>
#include <ATen/ops/native_group_norm_native.h>
#include <ATen/ops/sum.h>

#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/norm/gradient_sums.h"
#include "kernels/norm/moments.h"
#include "kernels/pointwise/expression.h"
#include "native/group_norm.h"

namespace ocl {
namespace {

// Expressions for means and sums per group or channel; see backward().
constexpr PointwiseOp kScale{"group_norm_scale", "a * b"};
constexpr PointwiseOp kCopy{"group_norm_copy", "a"};
// Not x * scale + shift: the rounded shift would not cancel where x is near the mean.
constexpr PointwiseOp kApply{"group_norm", "(a - b) * c"};
constexpr PointwiseOp kApplyBias{"group_norm_b", "(a - b) * c + d"};
constexpr PointwiseOp kSlope{"group_norm_slope", "-a * b * b * b * s0"};
constexpr PointwiseOp kOffset{"group_norm_offset", "-a * b * s0 - c * d"};
constexpr PointwiseOp kGradient{"group_norm_backward", "a * c + b * d + e"};

// For channels with fewer pixels than this, means are expanded: to compute an index for each short
// row would cost more.
constexpr int64_t kShortRow = 256;
// The parts of a channel if channels are adjacent: enough for the tasks of a few cores.
constexpr int64_t kMostShares = 16;

struct Groups {
  int64_t batch, channels, pixels, groups;
  bool last = false;  // channels are adjacent in memory

  int64_t width() const { return channels / groups; }
  double count() const { return static_cast<double>(width() * pixels); }
  // Views as [n][group][channel of the group][pixel], with size 1 for missing dimensions.
  at::Tensor all(const at::Tensor& x) const {
    if (!last) return x.view({batch, groups, width(), pixels});
    return x.as_strided({batch, groups, width(), pixels},
                        {channels * pixels, width(), 1, channels});
  }
  at::Tensor by_channel(const at::Tensor& x) const { return x.view({1, groups, width(), 1}); }
  at::Tensor by_group(const at::Tensor& x) const { return x.view({batch, groups, 1, 1}); }
};

// Moments of equal shares of each channel's pixels, which are then merged for a group, because the
// channels of a group are not adjacent in memory.
Moments moments_channels_last(const at::Tensor& x, const Groups& s) {
  int64_t shares = 1;
  while (shares < kMostShares && s.pixels % (2 * shares) == 0) shares *= 2;
  const auto share = static_cast<size_t>(s.pixels / shares);
  const Moments columns =
      moments(x, {static_cast<size_t>(s.batch * shares), share, static_cast<size_t>(s.channels)},
              /*split=*/false);
  const at::Tensor work = columns.work.view({2, s.batch, shares, s.groups, s.width()})
                              .permute({0, 2, 4, 1, 3})
                              .contiguous();
  return {work, static_cast<size_t>(s.batch * s.groups), static_cast<size_t>(shares * s.width()),
          share, static_cast<size_t>(s.width() * s.pixels)};
}

void forward(const at::Tensor& x, const at::Tensor& gamma, const at::Tensor& beta, int64_t n,
             int64_t c, int64_t pixels, int64_t groups, double eps, at::Tensor& y, at::Tensor& mean,
             at::Tensor& rstd) {
  TORCH_CHECK(x.numel() == n * c * pixels,
              "Expected X.numel() == N * C * HxW to be true, but got false.");
  check_floating(ocl_device(x), x.scalar_type(), "GroupNormKernelImpl");
  if (x.numel() == 0) {
    mean.zero_();
    rstd.fill_(NAN);
    return;
  }
  const Groups shape{n, c, pixels, groups, !x.is_contiguous()};
  const ScalarType compute = compute_type(x.scalar_type());
  const at::Tensor weight = dense(gamma), bias = dense(beta);
  const auto rows = static_cast<size_t>(n * groups);
  const at::TensorOptions options = rstd.options().dtype(compute);
  // Computes the results from the statistics before it rounds these to a half type.
  const bool rounds = rstd.scalar_type() != compute;
  const at::Tensor m = rounds ? at::empty_like(mean, options) : mean;
  const at::Tensor r = rounds ? at::empty_like(rstd, options) : rstd;
  finish_group_norm(shape.last ? moments_channels_last(x, shape)
                               : moments(x, {rows, static_cast<size_t>(shape.width() * pixels), 1}),
                    m, r, eps);
  if (rounds) {
    mean.copy_(m);
    rstd.copy_(r);
  }
  at::Tensor scale = shape.by_group(r);
  if (weight.defined()) {
    const at::Tensor product = at::empty({n, groups, shape.width(), 1}, options);
    evaluate(kScale, product, {scale, shape.by_channel(weight)}, compute);
    scale = product;
  }
  at::Tensor center = shape.by_group(m), offset = bias.defined() ? shape.by_channel(bias) : bias;
  if (shape.last || (pixels < kShortRow && (weight.defined() || bias.defined()))) {
    const std::vector<int64_t> per_channel{n, groups, shape.width(), 1};
    const auto spread = [&](at::Tensor& numbers) {
      if (!numbers.defined()) return;
      const at::Tensor all = at::empty(per_channel, options);
      evaluate(kCopy, all, {numbers}, compute);
      numbers = all;
    };
    spread(center);
    spread(offset);
    if (!weight.defined()) spread(scale);
  }
  std::vector<at::Tensor> operands{shape.all(x), center, scale};
  if (bias.defined()) operands.push_back(offset);
  evaluate(bias.defined() ? kApplyBias : kApply, shape.all(y), operands, compute);
}

// A group has D elements. sum and dot are the two sums of each channel (gradient_sums.h), h = g *
// gamma, xhat = (x - mean) * rstd:
//   dx = rstd * (h - mean(h) - xhat * mean(h * xhat))
//      = g * (rstd * gamma) + x * slope + offset,
//   slope = -rstd^3 / D * sum of gamma * dot, offset = -rstd / D * sum of gamma * sum - mean *
//   slope
void backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& mean,
              const at::Tensor& rstd, const at::Tensor& gamma, int64_t n, int64_t c, int64_t pixels,
              int64_t groups, at::Tensor& dx, at::Tensor& dgamma, at::Tensor& dbeta) {
  if (x.numel() == 0) {
    if (dgamma.defined()) {  // NaN if a group has no elements
      const at::Tensor none = rstd.mul(0).sum(0).view({groups, 1});
      dgamma.copy_(none.expand({groups, c / groups}).reshape({c}));
    }
    if (dbeta.defined()) dbeta.zero_();
    return;
  }
  const Groups shape{n, c, pixels, groups};
  const ScalarType compute = compute_type(x.scalar_type());
  const at::Tensor g = grad.contiguous(), in = x.contiguous(), weight = dense(gamma);
  const at::Tensor m = mean.contiguous().to(compute),
                   r = shape.by_group(rstd.contiguous().to(compute));
  const at::Tensor sums =
      gradient_sums_of_rows(g, in, m, static_cast<size_t>(n * c), static_cast<size_t>(pixels),
                            static_cast<size_t>(shape.width()));
  const at::Tensor by_channel = sums.view({2, n, groups, shape.width(), 1});
  const at::TensorOptions options = sums.options();
  const std::vector<int64_t> per_channel{n, groups, shape.width(), 1}, per_group{n, groups, 1, 1};
  if (dx.defined()) {
    at::Tensor weighted = by_channel, scale = r;
    if (weight.defined()) {
      evaluate(kScale, weighted = at::empty(by_channel.sizes(), options),
               {by_channel, shape.by_channel(weight)}, compute);
      evaluate(kScale, scale = at::empty(per_channel, options), {r, shape.by_channel(weight)},
               compute);
    }
    const at::Tensor totals = at::sum(weighted, 3, /*keepdim=*/true);
    const at::Tensor slope = at::empty(per_group, options), offset = at::empty(per_group, options);
    const double share = 1 / shape.count();
    evaluate(kSlope, slope, {totals[1], r}, compute, {share});
    evaluate(kOffset, offset, {totals[0], r, shape.by_group(m), slope}, compute, {share});
    const DenseOutput out(dx);
    evaluate(kGradient, shape.all(out.tensor()),
             {shape.all(g), shape.all(in), scale, slope, offset}, compute);
    out.finish();
  }
  if (dgamma.defined()) {
    const at::Tensor products = at::empty(per_channel, options);
    evaluate(kScale, products, {by_channel[1], r}, compute);
    dgamma.copy_(at::sum(products.view({n, c}), 0));
  }
  if (dbeta.defined()) dbeta.copy_(at::sum(sums[0].view({n, c}), 0));
}

// PyTorch keeps channels_last on the CPU only.
at::Tensor in_format(const at::Tensor& result, const at::Tensor& x) {
  if (!result.defined() || x.suggest_memory_format() == at::MemoryFormat::Contiguous) return result;
  return at::empty_like(x, result.options(), x.suggest_memory_format()).copy_(result);
}

}  // namespace

namespace native {

OCL_NATIVE("native_group_norm", group_norm);
std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm(const at::Tensor& x,
                                                          const std::optional<at::Tensor>& gamma,
                                                          const std::optional<at::Tensor>& beta,
                                                          int64_t n, int64_t c, int64_t pixels,
                                                          int64_t groups, double eps) {
  TORCH_CHECK(x.is_contiguous(x.suggest_memory_format()),
              "Expected X.is_contiguous(memory_format) to be true, but got false.");
  const bool both = gamma && gamma->defined() && beta && beta->defined();
  TORCH_CHECK(!both || gamma->scalar_type() == beta->scalar_type(), "expected scalar type ",
              gamma->scalar_type(), " but found ", beta->scalar_type());
  if (x.is_contiguous() || x.numel() == 0 || x.size(0) != n || x.size(1) != c) {
    const auto [y, mean, rstd] =
        at::native::native_group_norm(x.contiguous(), gamma, beta, n, c, pixels, groups, eps);
    return {in_format(y, x), mean, rstd};
  }
  // Calls PyTorch with an empty batch for its checks and the type of its statistics.
  const at::Tensor none = std::get<1>(at::native::native_group_norm(
      x.narrow(0, 0, 0).contiguous(), gamma, beta, 0, c, pixels, groups, eps));
  at::Tensor y = at::empty_like(x), mean = at::empty({n, groups}, none.options()),
             rstd = at::empty_like(mean);
  forward(x, gamma.value_or(at::Tensor()), beta.value_or(at::Tensor()), n, c, pixels, groups, eps,
          y, mean, rstd);
  return {y, mean, rstd};
}

OCL_NATIVE("native_group_norm_backward", group_norm_backward);
std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm_backward(
    const at::Tensor& grad, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
    const std::optional<at::Tensor>& gamma, int64_t n, int64_t c, int64_t pixels, int64_t groups,
    std::array<bool, 3> wanted) {
  const auto [dx, dgamma, dbeta] = at::native::native_group_norm_backward(
      grad.contiguous(), x.contiguous(), mean, rstd, gamma, n, c, pixels, groups, wanted);
  return {in_format(dx, x), dgamma, dbeta};
}

}  // namespace native
}  // namespace ocl

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(GroupNormKernel, &ocl::forward)
REGISTER_PRIVATEUSE1_DISPATCH(GroupNormBackwardKernel, &ocl::backward)

}  // namespace at::native
