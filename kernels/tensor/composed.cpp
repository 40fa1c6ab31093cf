// Operators that only call other operators.
#include <ATen/AccumulateType.h>
#include <ATen/EmptyTensor.h>
#include <ATen/TensorOperators.h>
#include <ATen/TensorUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Cross.h>
#include <ATen/native/Normalization.h>
#include <ATen/native/ReduceOps.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_weight_norm_differentiable_backward.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/is_nonzero_native.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/logspace.h>
#include <ATen/ops/norm_except_dim.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/roll_native.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/pointwise/expression.h"
#include "native/composed.h"

namespace ocl {
namespace {

constexpr PointwiseOp kRenorm{"renorm", "a > C(s0) ? C(s0) / (a + L(1e-7)) : C(1)"};
constexpr PointwiseOp kCross{"cross", "a * b - c * d", kAnyType, "c_mul(a, b) - c_mul(c, d)"};

void renorm_scale_factor(at::TensorIteratorBase& iter, double maxnorm) {
  pointwise(iter, kRenorm, {converted(maxnorm, iter.common_dtype())});
}

void cross(const at::Tensor& result, const at::Tensor& a, const at::Tensor& b, const int64_t dim) {
  const ScalarType type = result.scalar_type();
  if (type == ScalarType::Bool) refuse_type(ocl_device(result), type, "cross");
  for (const at::Tensor& each : {a, b}) expect_type(each, type, "cross");
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t j = (i + 1) % 3, k = (i + 2) % 3;
    evaluate(kCross, result.select(dim, i),
             {a.select(dim, j), b.select(dim, k), a.select(dim, k), b.select(dim, j)},
             compute_type(type));
  }
}

void aminmax(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& min, at::Tensor& max) {
  at::amin_out(min, self, dim, keepdim);
  at::amax_out(max, self, dim, keepdim);
}

void aminmax_allreduce(const at::Tensor& self, at::Tensor& min, at::Tensor& max) {
  // The caller has set the shape of `min` and `max`. It has dimensions only with keepdim.
  const bool keepdim = min.dim() > 0;
  at::amin_out(min, self, {}, keepdim);
  at::amax_out(max, self, {}, keepdim);
}

}  // namespace

namespace native {

// PyTorch's implementation for the CPU, which calls views and cat.
OCL_NATIVE_AS("roll", roll, at::native::roll(self, shifts, dims))
OCL_COMPLEX("roll");

OCL_NATIVE("eye.m_out", eye_m_out);
OCL_COMPLEX("eye.m_out");
Tensor& eye_m_out(int64_t n, int64_t m, Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
  TORCH_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
  out.resize_({n, m});
  out.zero_();
  out.diagonal().fill_(1);
  return out;
}

OCL_NATIVE_AS("eye.out", eye_out, eye_m_out(n, n, out))
OCL_COMPLEX("eye.out");

OCL_NATIVE("trace", trace);
OCL_COMPLEX("trace");
Tensor trace(const Tensor& self) {
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
  return self.diagonal().sum();
}

static void check_static_size(int64_t size) {
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
}

OCL_NATIVE("nonzero_static.out", nonzero_static_out);
Tensor& nonzero_static_out(const Tensor& self, int64_t size, int64_t fill_value, Tensor& out) {
  check_static_size(size);
  const Tensor found = self.nonzero();
  const int64_t count = std::min(size, found.size(0));
  at::native::resize_output(out, {size, self.dim()});
  out.narrow(0, 0, count).copy_(found.narrow(0, 0, count));
  out.narrow(0, count, size - count).fill_(fill_value);
  return out;
}

OCL_NATIVE("nonzero_static", nonzero_static);
Tensor nonzero_static(const Tensor& self, int64_t size, int64_t fill_value) {
  check_static_size(size);
  // The strides are those of PyTorch's meta function, as on CUDA.
  Tensor out = at::empty({self.dim(), size}, self.options().dtype(ScalarType::Long)).t();
  return nonzero_static_out(self, size, fill_value, out);
}

OCL_NATIVE("logspace.out", logspace_out);
Tensor& logspace_out(const Scalar& start, const Scalar& end, int64_t steps, double base,
                     Tensor& out) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  if (c10::isIntegralType(out.scalar_type(), /*includeBool=*/true)) {
    // Rounds first, because conversion to integers truncates, and a device's powers may be just
    // below an integer.
    if (out.numel() != steps) out.resize_({steps});
    const auto host = at::TensorOptions(at::kCPU).dtype(out.scalar_type());
    return out.copy_(at::logspace(start, end, steps, base, host).reshape(out.sizes()));
  }
  const bool has_fp64 = device(out.get_device()).properties().has_fp64;
  const ScalarType type = out.is_complex()                                     ? out.scalar_type()
                          : has_fp64 && out.scalar_type() != ScalarType::Float ? ScalarType::Double
                                                                               : ScalarType::Float;
  const Tensor exponents = at::linspace(start, end, steps, out.options().dtype(type));
  if (out.numel() != steps) out.resize_({steps});
  // The base is a tensor of this type: a plain number would become a float64 tensor on the device.
  const Tensor power = at::pow(at::full({}, base, exponents.options()), exponents);
  return out.copy_(power.reshape(out.sizes()));
}

// On the CPU, only a negative dimension that does not exist is an IndexError.
static Tensor part_of(const Tensor& self, int64_t dim, int64_t start, int64_t length) {
  TORCH_CHECK(self.dim() > 0, "narrow() cannot be applied to a 0-dim tensor.");
  TORCH_CHECK(dim < self.dim(), "narrow_copy: expected dim in [", -self.dim(), ", ", self.dim() - 1,
              "], but got ", dim);
  return self.narrow(dim, start, length);
}

OCL_NATIVE("narrow_copy.out", narrow_copy_out);
Tensor& narrow_copy_out(const Tensor& self, int64_t dim, int64_t start, int64_t length,
                        Tensor& out) {
  const Tensor part = part_of(self, dim, start, length);
  TORCH_CHECK(out.scalar_type() == self.scalar_type(), "narrow_copy: expected out of type ",
              self.scalar_type(), ", but got ", out.scalar_type());
  at::native::resize_output(out, part.sizes());
  return out.copy_(part);
}

OCL_NATIVE_AS("narrow_copy", narrow_copy,
              part_of(self, dim, start, length).clone(at::MemoryFormat::Contiguous))

OCL_NATIVE("embedding_renorm_", embedding_renorm_);
Tensor& embedding_renorm_(Tensor& self, const Tensor& indices, double max_norm, double norm_type) {
  TORCH_CHECK(self.dim() == 2, "'weight' must be 2-D, but got ", self.dim(), "-D");
  at::checkScalarTypes("embedding_renorm_", {indices, "indices", 2}, {at::kLong, at::kInt});
  const Tensor index = indices.reshape({-1}).to(at::kLong);  // index_copy_ needs this type
  if (index.numel() == 0) return self;
  const Tensor rows = self.index_select(0, index);
  // If an index occurs twice, the same row is written twice, which is harmless.
  if (norm_type > 0) return self.index_copy_(0, index, rows.renorm(norm_type, 0, max_norm));
  const Tensor norms = at::linalg_vector_norm(rows, norm_type, 1, /*keepdim=*/true);
  const Tensor scaled = rows * (max_norm / (norms + 1e-7));  // renorm() refuses this norm_type
  return self.index_copy_(0, index, at::where(norms > max_norm, scaled, rows));
}

OCL_NATIVE("_weight_norm_interface", weight_norm);
std::tuple<Tensor, Tensor> weight_norm(const Tensor& v, const Tensor& g, int64_t dim) {
  const ScalarType type = at::toAccumulateType(g.scalar_type(), /*is_cuda=*/true);
  const Tensor norms = at::norm_except_dim(v.to(type), 2, dim);
  return {v.mul(g.to(type).div(norms)).to(v.scalar_type()), norms};
}

OCL_NATIVE("_weight_norm_interface_backward", weight_norm_backward);
std::tuple<Tensor, Tensor> weight_norm_backward(const Tensor& grad_w, const Tensor& saved_v,
                                                const Tensor& saved_g, const Tensor& saved_norms,
                                                int64_t dim) {
  const ScalarType type = saved_norms.scalar_type();
  const auto [grad_v, grad_g] = at::_weight_norm_differentiable_backward(
      grad_w.to(type), saved_v.to(type), saved_g.to(type), saved_norms, dim);
  return {grad_v.to(saved_v.scalar_type()), grad_g.to(saved_g.scalar_type())};
}

OCL_NATIVE("_assert_async.msg", assert_async_msg);
void assert_async_msg(const Tensor& self, std::string_view message) {
  TORCH_CHECK(at::native::is_nonzero(self), message);
}

OCL_NATIVE("_assert_async", assert_async);
void assert_async(const Tensor& self) {
  assert_async_msg(self, "Expected Tensor with single nonzero value, but got zero");
}

OCL_NATIVE("set_", set_);
OCL_COMPLEX("set_");
Tensor& set_(Tensor& self) { return self.set_(at::empty({0}, self.options())); }

// A tensor of zeros without memory, for forward-mode derivatives.
OCL_NATIVE("_efficientzerotensor", efficientzerotensor);
Tensor efficientzerotensor(IntArrayRef size, std::optional<ScalarType> dtype,
                           std::optional<at::Layout> /*layout*/, std::optional<at::Device> device,
                           std::optional<bool> /*pin_memory*/) {
  at::native::ZeroTensorAllocator allocator(c10::device_or_default(device));
  const c10::DispatchKeySet keys = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1) |
                                   c10::DispatchKeySet(c10::DispatchKey::ZeroTensor);
  return at::detail::empty_generic(size, &allocator, keys, c10::dtype_or_default(dtype),
                                   std::nullopt);
}

OCL_SHARED("is_set_to");
OCL_SHARED("min.unary_out,max.unary_out");
OCL_SHARED("remainder.Scalar_Tensor");
OCL_SHARED("glu_backward_jvp");

}  // namespace native

namespace {

at::Tensor stack(at::TensorList tensors, int64_t dim) { return at::stack(tensors, dim); }
at::Tensor& stack_out(at::TensorList tensors, int64_t dim, at::Tensor& out) {
  return at::stack_out(out, tensors, dim);
}

// Registered here, because there is no mark for composite operators. PyTorch's concatenate.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_stack", &stack);
  m.impl("_stack.out", &stack_out);
}

}  // namespace
}  // namespace ocl

namespace at::native {

OCL_STUB("renorm.out", renorm_scale_factor_stub, &ocl::renorm_scale_factor)
OCL_STUB("linalg_cross.out", cross_stub, &ocl::cross)
OCL_STUB("aminmax.out,_aminmax", aminmax_stub, &ocl::aminmax)
OCL_COMPLEX("renorm.out,linalg_cross.out");
REGISTER_PRIVATEUSE1_DISPATCH(aminmax_allreduce_stub, &ocl::aminmax_allreduce)

}  // namespace at::native
