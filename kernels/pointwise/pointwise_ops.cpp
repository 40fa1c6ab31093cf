// The rows of pointwise_table.h as kernels for PyTorch's DispatchStubs.
#include "kernels/pointwise/pointwise_ops.h"

#include <ATen/ScalarOps.h>
#include <ATen/native/Activation.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/Fill.h>
#include <ATen/native/Lerp.h>
#include <ATen/native/LinearAlgebra.h>
#include <ATen/native/PointwiseOps.h>
#include <ATen/native/Pow.h>
#include <ATen/native/TensorCompare.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/pow.h>

#include "kernels/core/operators/registration.h"
#include "kernels/pointwise/expression.h"
#include "native/pointwise_ops.h"

namespace ocl {
namespace {

enum Row : int {
#define OCL_POINTWISE(ops, stub, ...) k_##stub,
#define OCL_SPECIAL(ops, stub, ...) k_##stub,
#include "kernels/pointwise/pointwise_table.h"
#undef OCL_POINTWISE
#undef OCL_SPECIAL
};

constexpr PointwiseOp row_of(std::string_view name, unsigned traits, const char* expression,
                             const char* complex_expression = nullptr) {
  return {name, expression, traits, complex_expression};
}

constexpr PointwiseOp kRows[] = {
#define OCL_POINTWISE(ops, stub, traits, ...) row_of(name_of_stub(#stub), traits, __VA_ARGS__),
#define OCL_SPECIAL(ops, stub, traits, header, expression) \
  {name_of_stub(#stub), expression, traits, nullptr, header},
#include "kernels/pointwise/pointwise_table.h"
#undef OCL_POINTWISE
#undef OCL_SPECIAL
};

// Numbers that the stub takes as double, and exponents for float32 and complex64, are converted as
// in C++: numbers that are too large become infinite. Other numbers must fit the type.
template <int row, typename Number>
c10::Scalar number_of(at::TensorIteratorBase& iter, const Number& number) {
  const ScalarType type = iter.common_dtype();
  if constexpr (std::is_same_v<Number, double>) {
    return converted(number, type);
  } else if constexpr (row == k_pow_tensor_scalar_stub) {
    if (type == ScalarType::Float) return converted(number.toDouble(), type);
    if (type == ScalarType::ComplexFloat) return c10::complex<float>(number.toComplexDouble());
  }
  return c10::Scalar(number);
}

// Only the last tensor may be a CPU scalar, as on CUDA.
void check_addcmul(const at::TensorIteratorBase& iter) {
  TORCH_CHECK(
      !iter.is_cpu_scalar(2),
      "CPU Scalar support for tensor1 argument is not supported when calling addcmul on ocl "
      "tensors. However, CPU Scalar support for tensor2 is supported, please swap your "
      "tensor1 and tensor2 terms.");
  TORCH_CHECK(!iter.is_cpu_scalar(1),
              "CPU Scalar support for self argument is not supported when calling addcmul on ocl "
              "tensors.");
}

// A function with the stub's signature: the iterator, then numbers, which become s0, s1, ...
template <typename Function, int row>
struct Adapter;

template <typename Iterator, typename... Numbers, int row>
struct Adapter<void (*)(Iterator&, Numbers...), row> {
  static void run(Iterator& iter, Numbers... numbers) {
    if constexpr (row == k_addcmul_stub) check_addcmul(iter);
    const std::array<c10::Scalar, sizeof...(numbers)> scalars{number_of<row>(iter, numbers)...};
    pointwise(iter, kRows[row], scalars);
  }
};

constexpr PointwiseOp kFill{"fill", "C(s0)", kNumbersFit, "s0"};
constexpr PointwiseOp kFillOne{"fill", "C(s0)", kAnyType, "s0"};
constexpr PointwiseOp kWhere{"where", "a != C(0) ? b : c", kAnyType, "a.x != 0 ? b : c"};
constexpr PointwiseOp kRoundDecimals{"round_decimals", "QUOTIENT(rint(a * s0), C(s0))", kFloating};
constexpr PointwiseOp kRoundTens{"round_tens", "rint(QUOTIENT(a, C(s0))) * s0", kFloating};
constexpr PointwiseOp kNanToNum{
    "nan_to_num", "IS_NAN(a) ? C(s0) : a == C(INFINITY) ? C(s1) : a == C(-INFINITY) ? C(s2) : a",
    kAnyType, "COMPLEX(NAN_TO_NUM(a.x), NAN_TO_NUM(a.y))"};
constexpr PointwiseOp kComplex{"complex", nullptr, kAnyType, "COMPLEX(a.x, b.x)"};
constexpr PointwiseOp kPolar{"polar", nullptr, kAnyType, "c_polar(a.x, b.x)"};
constexpr PointwiseOp kNextAfter{"nextafter", "nextafter(a, b)", kFloating};
constexpr PointwiseOp kNextAfterHalf{"nextafter_f16", "nextafter_f16(a, b)", kFloating};
constexpr PointwiseOp kNextAfterBfloat16{"nextafter_bf16", "nextafter_bf16(a, b)", kFloating};
constexpr PointwiseOp kFrexpMantissa{"frexp_mantissa", "frexp_mantissa(a)", kFloating, nullptr,
                                     "number"};
constexpr PointwiseOp kFrexpExponent{"frexp_exponent", "frexp_exponent(a)", kFloating, nullptr,
                                     "number"};
constexpr PointwiseOp kLdexp{"ldexp", "scaled(a, b)", kFloating, nullptr, "number"};
constexpr PointwiseOp kPreluGradSelf{"prelu_grad_self", "a > C(0) ? c : b * c"};
constexpr PointwiseOp kPreluGradWeight{"prelu_grad_weight", "a > C(0) ? C(0) : a * c"};

// If there is a single element of float16 or bfloat16, the CPU lets a too large number become
// infinite.
void fill(at::TensorIterator& iter, const c10::Scalar& value) {
  const ScalarType type = iter.dtype(0);
  if (iter.numel() == 0) return check_fits(value, type);
  if (iter.numel() == 1 && compute_type(type) != type) {
    pointwise(iter, kFillOne, {converted(value.toDouble(), type)});
  } else {
    pointwise(iter, kFill, {value});
  }
}

// The condition's type takes no part in the promotion.
void where(at::TensorIterator& iter) { pointwise(iter, kWhere, {}, iter.dtype(0)); }

// Make a complex tensor from two real ones.
void complex(at::TensorIterator& iter) { pointwise(iter, kComplex, {}, iter.dtype(0)); }
void polar(at::TensorIterator& iter) { pointwise(iter, kPolar, {}, iter.dtype(0)); }

void round_decimals(at::TensorIteratorBase& iter, int64_t decimals) {
  const double power = std::pow(10.0, std::abs(decimals));
  pointwise(iter, decimals < 0 ? kRoundTens : kRoundDecimals,
            {converted(power, iter.common_dtype())});
}

template <typename T>
std::pair<double, double> finite_range() {
  return {std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max()};
}

std::pair<double, double> finite_range(ScalarType type) {
  switch (type) {
    case ScalarType::Half:
      return finite_range<c10::Half>();
    case ScalarType::BFloat16:
      return finite_range<c10::BFloat16>();
    case ScalarType::Double:
    case ScalarType::ComplexDouble:
      return finite_range<double>();
    default:
      return finite_range<float>();
  }
}

void nan_to_num(at::TensorIteratorBase& iter, std::optional<double> nan,
                std::optional<double> positive, std::optional<double> negative) {
  const auto [lowest, highest] = finite_range(iter.dtype());
  const auto number = [&](double value) { return converted(value, iter.dtype()); };
  pointwise(iter, kNanToNum,
            {number(nan.value_or(0)), number(positive.value_or(highest)),
             number(negative.value_or(lowest))});
}

void nextafter(at::TensorIteratorBase& iter) {
  const ScalarType type = iter.common_dtype();
  pointwise(iter, type == ScalarType::BFloat16 ? kNextAfterBfloat16
                  : type == ScalarType::Half   ? kNextAfterHalf
                                               : kNextAfter);
}

// Computes one output of an iteration that has several.
void pointwise_output(at::TensorIteratorBase& iter, int output, const PointwiseOp& op) {
  std::vector<at::Tensor> inputs;
  for (int i = 0; i < iter.ninputs(); ++i) inputs.push_back(iter.input(i));
  evaluate(op, iter.output(output), inputs, inputs[0].scalar_type());
}

void frexp(at::TensorIteratorBase& iter) {
  pointwise_output(iter, 1, kFrexpExponent);
  pointwise_output(iter, 0, kFrexpMantissa);  // may be the argument
}

// The exponents are integers. Not x * 2^exponent, whose second factor may be 0 or infinite.
void ldexp(at::TensorIteratorBase& iter) { pointwise(iter, kLdexp, {}, iter.dtype(0)); }

void prelu_backward(at::TensorIterator& iter) {
  pointwise_output(iter, 0, kPreluGradSelf);
  pointwise_output(iter, 1, kPreluGradWeight);
}

}  // namespace

c10::ArrayRef<PointwiseOp> pointwise_rows() { return kRows; }

namespace native {

// Converts the number as a copy on the CPU does: integers wrap, floating-point numbers become
// infinite.
OCL_NATIVE("fill_.Tensor", fill_);
OCL_COMPLEX("fill_.Tensor");
Tensor& fill_(Tensor& self, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ",
              value.dim(), " dimensions.");
  if (value.device() == self.device()) return self.copy_(value);
  return self.fill_(value.to(self.scalar_type()).item());
}

// PyTorch's implementation makes a float64 tensor of the base, but the device may lack float64.
OCL_STRUCTURED("pow.Scalar_out", pow_scalar)
(const c10::Scalar& base, const Tensor& exponent, const Tensor& out) {
  Tensor result = out;
  if (base.equal(1.0)) {
    result.fill_(1);
  } else {
    at::pow_out(result, at::native::wrapped_scalar_tensor(base), exponent);
  }
}
OCL_COMPLEX("pow.Scalar");

}  // namespace native
}  // namespace ocl

namespace at::native {

#define OCL_POINTWISE(ops, stub, ...) \
  OCL_STUB(ops, stub, (&ocl::Adapter<stub##_DECLARE_DISPATCH_type::FnPtr, ocl::k_##stub>::run))
#define OCL_SPECIAL(ops, stub, ...) OCL_POINTWISE(ops, stub)
#include "kernels/pointwise/pointwise_table.h"
#undef OCL_POINTWISE
#undef OCL_SPECIAL

OCL_STUB("fill_.Scalar", fill_stub, &ocl::fill)
OCL_STUB("where.self", where_kernel, &ocl::where)
OCL_STUB("complex", complex_stub, &ocl::complex)
OCL_STUB("polar", polar_stub, &ocl::polar)
OCL_STUB("round.decimals", round_decimals_stub, &ocl::round_decimals)
OCL_STUB("nan_to_num", nan_to_num_stub, &ocl::nan_to_num)
OCL_STUB("nextafter", nextafter_stub, &ocl::nextafter)
OCL_STUB("frexp", frexp_stub, &ocl::frexp)
OCL_STUB("_prelu_kernel_backward", prelu_backward_stub, &ocl::prelu_backward)
// PyTorch's ldexp, which serves all devices, asks whether there is a kernel.
REGISTER_PRIVATEUSE1_DISPATCH(ldexp_stub, &ocl::ldexp)
OCL_SHARED("relu,zero_,rsub.Tensor,isnan,hardtanh,mvlgamma");
OCL_COMPLEX("fill_.Scalar,zero_,where.self,complex,polar,nan_to_num,rsub.Tensor,isnan");

}  // namespace at::native
