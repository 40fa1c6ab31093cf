// Quantized tensors: integers with a quantizer. The quantizers are PyTorch's. This file has the
// conversions that they call, and operators that PyTorch implements only for its own backends.
#include <ATen/native/quantized/AffineQuantizer.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_quantized.h>
#include <ATen/quantized/Quantizer.h>
#include <torch/library.h>

#include "backend/queue/fault.h"
#include "kernels/core/operators/check_range.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/pointwise/expression.h"

namespace ocl {
namespace {

using at::Tensor;

ScalarType integer_type(const Tensor& quantized) {
  switch (quantized.scalar_type()) {
    case ScalarType::QInt8:
      return ScalarType::Char;
    case ScalarType::QUInt8:
      return ScalarType::Byte;
    case ScalarType::QInt32:
      return ScalarType::Int;
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "ocl has no kernels for tensors of type ",
                                  quantized.scalar_type());
  }
}

// The tensor's integers, without its quantizer, in the same memory.
Tensor integers(const Tensor& quantized) {
  Tensor result =
      at::empty({0}, at::TensorOptions(quantized.device()).dtype(integer_type(quantized)));
  result.set_(quantized.storage(), quantized.storage_offset(), quantized.sizes(),
              quantized.strides());
  return result;
}

// Reshapes numbers per channel so that they broadcast to the tensor.
Tensor along(const Tensor& numbers, const Tensor& tensor, int64_t axis, ScalarType type) {
  at::DimVector shape(tensor.dim(), 1);
  shape[axis] = numbers.numel();
  return numbers.to(tensor.device(), type).view(shape);
}

// Adds the zero point before rounding, as on the CPU. The CPU's kernels for 8 bits and a single
// scale compute product and sum with one rounding (fma); all others round each of them to float.
// For these, an fma() that adds 0 keeps compilers from contracting product and sum.
#define IN_FLOAT(x) "CONVERT(T, CONVERT(float, " x "))"
#define STEP(inverse, zero) "rint(" IN_FLOAT(IN_FLOAT("fma(a, " inverse ", C(0))") " + " zero) ")"
constexpr PointwiseOp kQuantize{"quantize", "FMIN(FMAX(rint(fma(a, C(s0), C(s1))), C(s2)), C(s3))",
                                kFloating};
constexpr PointwiseOp kQuantizeInt{
    "quantize_int", "FMIN(FMAX(" STEP("C(s0)", IN_FLOAT("C(s1)")) ", C(s2)), C(s3))", kFloating};
constexpr PointwiseOp kDequantize{"dequantize", "(a - C(s1)) * C(s0)"};
// b: scale, c: zero point; both of the element's channel.
constexpr PointwiseOp kQuantizeChannel{
    "quantize_channel", "FMIN(FMAX(" STEP(IN_FLOAT("QUOTIENT(L(1.0), b)"), "c") ", C(s0)), C(s1))",
    kFloating};
constexpr PointwiseOp kQuantizeFloatZero{
    "quantize_float_zero", "FMIN(FMAX(rint(QUOTIENT(a, b) + c), C(s0)), C(s1))", kFloating};
constexpr PointwiseOp kDequantizeChannel{"dequantize_channel", "(a - c) * b"};

std::pair<double, double> limits(ScalarType integers) {
  if (integers == ScalarType::Char) return {-128, 127};
  if (integers == ScalarType::Byte) return {0, 255};
  return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
}

// Double for integers of 32 bits, because float cannot represent them all.
ScalarType compute_for(const Tensor& whole) {
  return whole.scalar_type() == ScalarType::Int && ocl_device(whole).properties().has_fp64
             ? ScalarType::Double
             : ScalarType::Float;
}

void quantize(const Tensor& in, Tensor& out, double scale, int64_t zero_point) {
  const Tensor whole = integers(out);
  const auto [least, largest] = limits(whole.scalar_type());
  const bool of_bytes = c10::elementSize(whole.scalar_type()) == 1;
  evaluate(of_bytes ? kQuantize : kQuantizeInt, whole, {in}, compute_for(whole),
           {1.0f / static_cast<float>(scale), zero_point, least, largest});
}

void dequantize(const Tensor& in, Tensor& out, double scale, int64_t zero_point) {
  const Tensor whole = integers(in);
  evaluate(kDequantize, out, {whole}, compute_for(whole), {static_cast<float>(scale), zero_point});
}

void quantize_channels(const PointwiseOp& op, const Tensor& in, const Tensor& out,
                       const Tensor& scales, const Tensor& zero_points, int64_t axis) {
  const Tensor whole = integers(out);
  const auto [least, largest] = limits(whole.scalar_type());
  evaluate(op, whole,
           {in, along(scales, in, axis, ScalarType::Float),
            along(zero_points, in, axis, ScalarType::Float)},
           compute_for(whole), {least, largest});
}

// PyTorch leaves the check of the zero points to the devices.
void quantize_per_channel(const Tensor& in, Tensor& out, const Tensor& scales,
                          const Tensor& zero_points, int64_t axis) {
  static const int site = fault_site({"aten::quantize_per_channel", FaultClass::kRuntime,
                                      "zero point", "integers of the type, which end at"});
  const auto [least, largest] = limits(integer_type(out));
  check_range(zero_points.to(in.device()), {least, largest, static_cast<int64_t>(largest), site});
  quantize_channels(kQuantizeChannel, in, out, scales, zero_points, axis);
}

void quantize_per_channel_float(const Tensor& in, Tensor& out, const Tensor& scales,
                                const Tensor& zero_points, int64_t axis) {
  quantize_channels(kQuantizeFloatZero, in, out, scales, zero_points, axis);
}

void dequantize_per_channel(const Tensor& in, Tensor& out, const Tensor& scales,
                            const Tensor& zero_points, int64_t axis) {
  const Tensor whole = integers(in);
  evaluate(kDequantizeChannel, out,
           {whole, along(scales, in, axis, ScalarType::Float),
            along(zero_points, in, axis, ScalarType::Float)},
           compute_for(whole));
}

Tensor int_repr(const Tensor& self) { return integers(self).clone(); }

Tensor flip(const Tensor& self, at::IntArrayRef dims) {
  TORCH_CHECK(self.qscheme() == at::kPerTensorAffine,
              "Setting strides is possible only on uniformly quantized tensor");
  const Tensor flipped = integers(self).flip(dims);
  const Tensor result = at::empty_quantized(self.sizes(), self);
  result.as_strided_(flipped.sizes(), flipped.strides());
  integers(result).copy_(flipped);
  return result;
}

Tensor& copy_(Tensor& self, const Tensor& src, bool non_blocking) {
  if (self.is_quantized() && src.is_quantized()) {
    TORCH_CHECK(self.qscheme() == src.qscheme(), "Quantized Copy only works with same qscheme");
    TORCH_CHECK(self.scalar_type() == src.scalar_type(),
                "Quantized copy only works with the same dtype");
    at::set_quantizer_(self, src.quantizer());
    const auto plain = [](const Tensor& t) {
      return t.device().is_privateuseone() ? integers(t) : t.int_repr();
    };
    if (self.device().is_privateuseone()) {
      integers(self).copy_(plain(src), non_blocking);
    } else {
      // A CPU tensor: writes its integers in place.
      const Tensor whole = plain(src).cpu();
      Tensor target = at::empty({0}, whole.options());
      target.set_(self.storage(), self.storage_offset(), self.sizes(), self.strides());
      target.copy_(whole);
    }
    return self;
  }
  if (self.is_quantized()) {
    const Tensor on_device = src.to(self.device(), ScalarType::Float);
    return copy_(self, self.quantizer()->quantize(on_device), non_blocking);
  }
  TORCH_CHECK(false,
              "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use "
              "dequantize to get a float Tensor from a quantized Tensor");
}

Tensor copy_from(const Tensor& self, const Tensor& dst, bool non_blocking) {
  Tensor target = dst;
  return copy_(target, self, non_blocking);
}

TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) {
  m.impl("_copy_from", &copy_from);
  m.impl("int_repr", &int_repr);
  m.impl("flip", &flip);
  m.impl("copy_", &copy_);
}

}  // namespace
}  // namespace ocl

namespace at::native {

OCL_STUB(
    "quantize_per_tensor.default,quantize_per_tensor.tensor_qparams,quantize_per_tensor_dynamic",
    quantize_tensor_per_tensor_affine_stub, &ocl::quantize)
OCL_STUB("quantize_per_channel", quantize_tensor_per_channel_affine_stub,
         &ocl::quantize_per_channel)
OCL_STUB("dequantize.self", dequantize_tensor_per_tensor_affine_stub, &ocl::dequantize)
REGISTER_PRIVATEUSE1_DISPATCH(dequantize_tensor_per_channel_affine_stub,
                              &ocl::dequantize_per_channel)
REGISTER_PRIVATEUSE1_DISPATCH(quantize_tensor_per_channel_float_qparams_stub,
                              &ocl::quantize_per_channel_float)
REGISTER_PRIVATEUSE1_DISPATCH(dequantize_tensor_per_channel_float_qparams_stub,
                              &ocl::dequantize_per_channel)

}  // namespace at::native
