// Fake quantization, which rounds numbers to the values of a quantized type; and its gradients.
#include <ATen/native/quantized/FakeQuantAffine.h>
#include <ATen/native/quantized/cpu/QuantUtils.h>
#include <ATen/ops/_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/fake_quantize_per_channel_affine_cachemask.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <cmath>

#include "kernels/core/operators/registration.h"
#include "kernels/pointwise/expression.h"
#include "native/fake_quantize.h"

namespace ocl {
namespace {

using at::Tensor;

// The inverse of a scale: float32 even for float64, as on the CPU.
#define IN_FLOAT(x) "CONVERT(T, CONVERT(float, " x "))"
#define INVERSE(scale) IN_FLOAT("QUOTIENT(L(1.0), " scale ")")

// The quantized number for `a`; NaN becomes the least number, as on the CPU.
#define STEP "(C(s1) + rint(a * " INVERSE("C(s0)") "))"
#define CLAMPED(step) "FMIN(FMAX(" step ", C(s2)), C(s3))"
#define INSIDE(step) step " >= C(s2) & " step " <= C(s3)"

// a: the input; s0: scale; s1: zero point; s2, s3: least and largest.
constexpr PointwiseOp kFakeQuantize{"fake_quantize", "(" CLAMPED(STEP) " - C(s1)) * C(s0)",
                                    kFloating};
constexpr PointwiseOp kInside{"fake_quantize_mask", "FLAG(" INSIDE(STEP) ")", kFloating | kTruth};

// b, c: scale and zero point; s0, s1: least and largest.
#define T_STEP "(c + rint(a * " INVERSE("b") "))"
#define T_FLOAT_STEP "rint(c + a * " INVERSE("b") ")"
#define T_CLAMPED(step) "FMIN(FMAX(" step ", C(s0)), C(s1))"
#define T_INSIDE(step) step " >= C(s0) & " step " <= C(s1)"
constexpr PointwiseOp kPerChannel{"fake_quantize_channel", "(" T_CLAMPED(T_STEP) " - c) * b",
                                  kFloating};
constexpr PointwiseOp kPerChannelInside{"fake_quantize_channel_mask", "FLAG(" T_INSIDE(T_STEP) ")",
                                        kFloating | kTruth};
constexpr PointwiseOp kFloatZero{"fake_quantize_float_zero",
                                 "(" T_CLAMPED(T_FLOAT_STEP) " - c) * b", kFloating};
constexpr PointwiseOp kFloatZeroInside{"fake_quantize_float_zero_mask",
                                       "FLAG(" T_INSIDE(T_FLOAT_STEP) ")", kFloating | kTruth};
// The same if d is not 0, else the input itself.
constexpr PointwiseOp kIfEnabled{"fake_quantize_if",
                                 "d != C(0) ? (" T_CLAMPED(T_STEP) " - c) * b : a", kFloating};
constexpr PointwiseOp kIfEnabledInside{
    "fake_quantize_if_mask", "FLAG((d == C(0)) | (" T_INSIDE(T_STEP) "))", kFloating | kTruth};

// The learnable forms: a the input, b the output's gradient, c scale, d zero point; s0, s1 as
// above, s2 the factor of the gradients.
#define G_STEP "(d + rint(a * " INVERSE("c") "))"
#define G_INSIDE G_STEP " >= C(s0) & " G_STEP " <= C(s1)"
constexpr PointwiseOp kGradInput{"fake_quantize_grad", G_INSIDE " ? b : C(0)", kFloating};
constexpr PointwiseOp kGradScale{"fake_quantize_grad_scale",
                                 "(" G_STEP " < C(s0) ? b * (C(s0) - d) : " G_STEP
                                 " > C(s1) ? b * (C(s1) - d) : "
                                 "b * ((" G_STEP " - d) * c - a) * QUOTIENT(L(1.0), c)) * C(s2)",
                                 kFloating};
constexpr PointwiseOp kGradZeroPoint{"fake_quantize_grad_zero_point",
                                     G_INSIDE " ? C(0) : -b * c * C(s2)", kFloating};

void per_tensor(Tensor& output, Tensor& mask, const Tensor& input, float scale, int64_t zero_point,
                int64_t least, int64_t largest) {
  const ScalarType compute = compute_type(input.scalar_type());
  const std::array<c10::Scalar, 4> numbers{scale, zero_point, least, largest};
  evaluate(kFakeQuantize, output, {input}, compute, numbers);
  evaluate(kInside, mask, {input}, compute, numbers);
}

void per_tensor_parameters(Tensor& output, Tensor& mask, const Tensor& input, const Tensor& scale,
                           const Tensor& zero_point, const Tensor& enabled, int64_t least,
                           int64_t largest) {
  const ScalarType compute = compute_type(input.scalar_type());
  const std::array<c10::Scalar, 2> numbers{least, largest};
  // Results with one dimension would not fit an input without dimensions.
  const auto point = [](const Tensor& one) { return one.numel() == 1 ? one.reshape({}) : one; };
  const std::array<Tensor, 4> inputs{input, point(scale), point(zero_point), point(enabled)};
  evaluate(kIfEnabled, output, inputs, compute, numbers);
  evaluate(kIfEnabledInside, mask, inputs, compute, numbers);
}

void per_channel(at::TensorIterator& iter, at::TensorIterator& iter_mask, int64_t least,
                 int64_t largest) {
  const std::array<c10::Scalar, 2> numbers{least, largest};
  const ScalarType compute = compute_type(iter.dtype(1));
  const bool floating = c10::isFloatingType(iter.dtype(3));
  pointwise(iter, floating ? kFloatZero : kPerChannel, numbers, compute);
  pointwise(iter_mask, floating ? kFloatZeroInside : kPerChannelInside, numbers, compute);
}

// Outputs: the gradients of input, scale and zero point; inputs: input, gradient, and `others`.
void learnable_gradients(at::TensorIterator& iter, const Tensor& scale, const Tensor& zero_point,
                         int64_t least, int64_t largest, float factor) {
  const Tensor input = iter.tensor(3), grad = iter.tensor(4);
  const ScalarType compute = compute_type(input.scalar_type());
  const std::array<c10::Scalar, 3> numbers{least, largest, factor};
  evaluate(kGradInput, iter.tensor(0), {input, grad, scale, zero_point}, compute, numbers);
  evaluate(kGradScale, iter.tensor(1), {input, grad, scale, zero_point}, compute, numbers);
  evaluate(kGradZeroPoint, iter.tensor(2), {input, grad, scale, zero_point}, compute, numbers);
}

void learnable_per_tensor(at::TensorIterator& iter, float scale, float /*inv_scale*/,
                          int64_t zero_point, int64_t least, int64_t largest, float factor) {
  const at::TensorOptions options = iter.tensor(3).options();
  learnable_gradients(iter, at::full({}, scale, options), at::full({}, zero_point, options), least,
                      largest, factor);
}

void learnable_per_channel(at::TensorIterator& iter, int64_t least, int64_t largest, float factor) {
  learnable_gradients(iter, iter.tensor(5), iter.tensor(6), least, largest, factor);
}

// Moves a running minimum or maximum towards the minimum or maximum of the batch, `now`. An
// infinite one is not set yet, and becomes `now`.
void move_towards(const Tensor& running, const Tensor& now, double rate) {
  running.copy_(at::where(running.isinf(), now, running + (now - running) * rate));
}

// Computes scale and zero point from a range, number by number on the host, in double as on the
// CPU.
void choose_parameters(const Tensor& low, const Tensor& high, Tensor& scale, Tensor& zero_point,
                       int64_t least, int64_t largest, bool symmetric) {
  const Tensor lows = low.to(at::kCPU, ScalarType::Float).contiguous(),
               highs = high.to(at::kCPU, ScalarType::Float).contiguous();
  std::vector<float> scales;
  std::vector<int64_t> zero_points;
  for (int64_t i = 0; i < lows.numel(); ++i) {
    // Extends the range to include 0. Accepts NaN and empty ranges, as the CPU does.
    const float from = std::min(lows.const_data_ptr<float>()[i], 0.0f),
                to = std::max(highs.const_data_ptr<float>()[i], 0.0f);
    if (std::isnan(from) || std::isnan(to)) {
      scales.push_back(NAN);
      zero_points.push_back(INT32_MIN);
      continue;
    }
    const quant_utils::TensorQuantizationParams chosen = quant_utils::ChooseQuantizationParams(
        from, to, static_cast<int32_t>(least), static_cast<int32_t>(largest), symmetric);
    scales.push_back(static_cast<float>(chosen.scale));
    zero_points.push_back(chosen.zero_point);
  }
  scale.copy_(at::tensor(scales).view_as(scale));
  zero_point.copy_(at::tensor(zero_points).view_as(zero_point));
}

}  // namespace

namespace native {

OCL_NATIVE("_fused_moving_avg_obs_fq_helper", fused_moving_average_fake_quantize);
std::tuple<Tensor, Tensor> fused_moving_average_fake_quantize(
    const Tensor& self, const Tensor& observer_on, const Tensor& fake_quant_on, Tensor& running_min,
    Tensor& running_max, Tensor& scale, Tensor& zero_point, double averaging_const,
    int64_t quant_min, int64_t quant_max, int64_t ch_axis, bool per_row_fake_quant,
    bool symmetric_quant) {
  TORCH_CHECK(ch_axis < self.dim(),
              "Error in fused_moving_avg_obs_fake_quant_cpu: ch_axis must be < self.dim()");
  if (observer_on.item<int64_t>() != 0) {
    Tensor low, high;
    if (per_row_fake_quant) {
      const int64_t channels = self.size(ch_axis);
      if (running_min.numel() == 0) {
        running_min.resize_({channels}).fill_(INFINITY);
        running_max.resize_({channels}).fill_(-INFINITY);
        scale.resize_({channels});
        zero_point.resize_({channels});
      }
      std::tie(low, high) =
          at::aminmax(self.movedim(ch_axis, 0).reshape({channels, -1}), /*dim=*/1);
    } else {
      std::tie(low, high) = at::aminmax(self);
    }
    move_towards(running_min, low.to(running_min.scalar_type()).view_as(running_min),
                 averaging_const);
    move_towards(running_max, high.to(running_max.scalar_type()).view_as(running_max),
                 averaging_const);
  }
  if (fake_quant_on.item<int64_t>() == 0) {
    return {self.clone(), at::ones_like(self, self.options().dtype(ScalarType::Bool))};
  }
  choose_parameters(running_min, running_max, scale, zero_point, quant_min, quant_max,
                    symmetric_quant);
  if (per_row_fake_quant) {
    return at::fake_quantize_per_channel_affine_cachemask(self, scale, zero_point, ch_axis,
                                                          quant_min, quant_max);
  }
  return at::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
      self, scale, zero_point, fake_quant_on, quant_min, quant_max);
}

}  // namespace native
}  // namespace ocl

namespace at::native {

OCL_STUB("fake_quantize_per_tensor_affine_cachemask", fake_quant_tensor_cachemask_stub,
         &ocl::per_tensor)
OCL_STUB("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
         fake_quant_tensor_cachemask_tensor_qparams_stub, &ocl::per_tensor_parameters)
OCL_STUB("fake_quantize_per_channel_affine_cachemask", fake_quant_per_channel_cachemask_stub,
         &ocl::per_channel)
OCL_STUB("_fake_quantize_learnable_per_tensor_affine_backward",
         fake_quant_grad_learnable_tensor_stub, &ocl::learnable_per_tensor)
OCL_STUB("_fake_quantize_learnable_per_channel_affine_backward",
         fake_quant_grad_learnable_channel_stub, &ocl::learnable_per_channel)
OCL_SHARED("_fake_quantize_learnable_per_tensor_affine");
OCL_SHARED("_fake_quantize_learnable_per_channel_affine");

}  // namespace at::native
