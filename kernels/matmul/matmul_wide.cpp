// Products of 16-bit matrices with a float32 result.
#include <ATen/native/Resize.h>
#include <ATen/ops/bmm_meta_dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm_meta_dispatch.h>

#include "kernels/core/operators/registration.h"
#include "kernels/core/types/dtype.h"
#include "kernels/matmul/gemm.h"
#include "native/matmul_wide.h"

namespace ocl {
namespace {

using at::Scalar, at::Tensor;

void check(const char* op, const Tensor& a, const Tensor& b, ScalarType out) {
  const ScalarType type = a.scalar_type();
  TORCH_CHECK(type == b.scalar_type(), op, ": input dtypes must be the same, got ", type, " and ",
              b.scalar_type());
  const bool halves = type == ScalarType::Half || type == ScalarType::BFloat16;
  TORCH_CHECK(out == type || (halves && out == ScalarType::Float), op,
              ": out_dtype must be the inputs' type, or float32 for float16 and bfloat16; got ",
              out, " for ", type);
}

// alpha * a b + beta * c, for a matrix or a batch of matrices. `c` may be undefined.
Tensor product(const char* op, const Tensor& a, const Tensor& b, ScalarType type, bool batched,
               const Tensor& c, const Scalar& beta, const Scalar& alpha) {
  check(op, a, b, type);
  const Tensor shape = batched ? at::meta::bmm(a, b) : at::meta::mm(a, b);
  const Tensor out = at::empty(shape.sizes(), a.options().dtype(type));
  const Tensor addend = c.defined() ? c.to(type).expand_as(out) : c;
  gemm(out, a, b, alpha, addend, beta);
  return out;
}

Tensor& put(const Tensor& result, Tensor& out) {
  TORCH_CHECK(out.scalar_type() == result.scalar_type(), "expected out of type ",
              result.scalar_type(), ", but got ", out.scalar_type());
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

}  // namespace

namespace native {

OCL_NATIVE("mm.dtype", mm_dtype);
Tensor mm_dtype(const Tensor& self, const Tensor& mat2, ScalarType out_dtype) {
  return product("mm", self, mat2, out_dtype, false, {}, 0, 1);
}

OCL_NATIVE("mm.dtype_out", mm_dtype_out);
Tensor& mm_dtype_out(const Tensor& self, const Tensor& mat2, ScalarType out_dtype, Tensor& out) {
  return put(mm_dtype(self, mat2, out_dtype), out);
}

OCL_NATIVE("bmm.dtype", bmm_dtype);
Tensor bmm_dtype(const Tensor& self, const Tensor& mat2, ScalarType out_dtype) {
  return product("bmm", self, mat2, out_dtype, true, {}, 0, 1);
}

OCL_NATIVE("bmm.dtype_out", bmm_dtype_out);
Tensor& bmm_dtype_out(const Tensor& self, const Tensor& mat2, ScalarType out_dtype, Tensor& out) {
  return put(bmm_dtype(self, mat2, out_dtype), out);
}

OCL_NATIVE("addmm.dtype", addmm_dtype);
Tensor addmm_dtype(const Tensor& self, const Tensor& mat1, const Tensor& mat2, ScalarType out_dtype,
                   const Scalar& beta, const Scalar& alpha) {
  return product("addmm", mat1, mat2, out_dtype, false, self, beta, alpha);
}

OCL_NATIVE("addmm.dtype_out", addmm_dtype_out);
Tensor& addmm_dtype_out(const Tensor& self, const Tensor& mat1, const Tensor& mat2,
                        ScalarType out_dtype, const Scalar& beta, const Scalar& alpha,
                        Tensor& out) {
  return put(addmm_dtype(self, mat1, mat2, out_dtype, beta, alpha), out);
}

OCL_NATIVE("baddbmm.dtype", baddbmm_dtype);
Tensor baddbmm_dtype(const Tensor& self, const Tensor& batch1, const Tensor& batch2,
                     ScalarType out_dtype, const Scalar& beta, const Scalar& alpha) {
  return product("baddbmm", batch1, batch2, out_dtype, true, self, beta, alpha);
}

OCL_NATIVE("baddbmm.dtype_out", baddbmm_dtype_out);
Tensor& baddbmm_dtype_out(const Tensor& self, const Tensor& batch1, const Tensor& batch2,
                          ScalarType out_dtype, const Scalar& beta, const Scalar& alpha,
                          Tensor& out) {
  return put(baddbmm_dtype(self, batch1, batch2, out_dtype, beta, alpha), out);
}

}  // namespace native
}  // namespace ocl
