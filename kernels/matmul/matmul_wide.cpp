// Products of 16-bit matrices with a float32 result: the operands are converted to float32.
#include <ATen/native/Resize.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>

#include "kernels/core/dtype.h"
#include "kernels/core/registration.h"
#include "native/matmul_wide.h"

namespace ocl {
namespace {

using at::Tensor;

void check(const char* op, const Tensor& a, const Tensor& b, ScalarType out) {
  const ScalarType type = a.scalar_type();
  TORCH_CHECK(type == b.scalar_type(), op, ": input dtypes must be the same, got ", type, " and ",
              b.scalar_type());
  const bool halves = type == ScalarType::Half || type == ScalarType::BFloat16;
  TORCH_CHECK(out == type || (halves && out == ScalarType::Float), op,
              ": out_dtype must be the inputs' type, or float32 for float16 and bfloat16; got ",
              out, " for ", type);
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
  check("mm", self, mat2, out_dtype);
  return at::mm(self.to(out_dtype), mat2.to(out_dtype));
}

OCL_NATIVE("mm.dtype_out", mm_dtype_out);
Tensor& mm_dtype_out(const Tensor& self, const Tensor& mat2, ScalarType out_dtype, Tensor& out) {
  return put(mm_dtype(self, mat2, out_dtype), out);
}

OCL_NATIVE("bmm.dtype", bmm_dtype);
Tensor bmm_dtype(const Tensor& self, const Tensor& mat2, ScalarType out_dtype) {
  check("bmm", self, mat2, out_dtype);
  return at::bmm(self.to(out_dtype), mat2.to(out_dtype));
}

OCL_NATIVE("bmm.dtype_out", bmm_dtype_out);
Tensor& bmm_dtype_out(const Tensor& self, const Tensor& mat2, ScalarType out_dtype, Tensor& out) {
  return put(bmm_dtype(self, mat2, out_dtype), out);
}

OCL_NATIVE("addmm.dtype", addmm_dtype);
Tensor addmm_dtype(const Tensor& self, const Tensor& mat1, const Tensor& mat2, ScalarType out_dtype,
                   const Scalar& beta, const Scalar& alpha) {
  check("addmm", mat1, mat2, out_dtype);
  return at::addmm(self.to(out_dtype), mat1.to(out_dtype), mat2.to(out_dtype), beta, alpha);
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
  check("baddbmm", batch1, batch2, out_dtype);
  return at::baddbmm(self.to(out_dtype), batch1.to(out_dtype), batch2.to(out_dtype), beta, alpha);
}

OCL_NATIVE("baddbmm.dtype_out", baddbmm_dtype_out);
Tensor& baddbmm_dtype_out(const Tensor& self, const Tensor& batch1, const Tensor& batch2,
                          ScalarType out_dtype, const Scalar& beta, const Scalar& alpha,
                          Tensor& out) {
  return put(baddbmm_dtype(self, batch1, batch2, out_dtype, beta, alpha), out);
}

}  // namespace native
}  // namespace ocl
