// Matrix products: prepares the operands for the kernels.
#include "kernels/matmul/gemm.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>

#include "backend/base/error.h"
#include "kernels/core/matrix_units/matrix_unit.h"
#include "kernels/matmul/gemm_complex.h"
#include "kernels/matmul/gemm_problem.h"

namespace ocl {
namespace {

GemmOperand as_operand(const at::Tensor& t) {
  const int64_t rows = t.size(-2), columns = t.size(-1);
  const int64_t row_stride = t.stride(-2), column_stride = t.stride(-1);
  // An empty tensor counts as contiguous, whatever its strides are.
  if (t.numel() == 0) return {t, false, std::max<int64_t>(columns, 1), 0};
  if ((column_stride == 1 || columns == 1) && (row_stride >= 1 || rows == 1)) {
    return {t, false, rows == 1 ? std::max<int64_t>(columns, 1) : row_stride, batch_stride(t)};
  }
  if ((row_stride == 1 || rows == 1) && (column_stride >= 1 || columns == 1)) {
    return {t, true, columns == 1 ? std::max<int64_t>(rows, 1) : column_stride, batch_stride(t)};
  }
  return as_operand(t.contiguous());
}

bool row_major(const at::Tensor& t) {
  return (t.stride(-1) == 1 || t.size(-1) == 1) && (t.stride(-2) >= t.size(-1) || t.size(-2) == 1);
}

// Empty operands have no memory; the kernels do not read them.
BufferView view_or(const at::Tensor& t, const at::Tensor& other) {
  return view(t.defined() && t.numel() > 0 ? t : other);
}

// Whether products of operands of this type may have the wider type `out`.
bool widens(ScalarType operands, ScalarType out) {
  return (operands == ScalarType::Half || operands == ScalarType::BFloat16 ||
          operands == ScalarType::Char) &&
         out == matrix_sum_type(operands);
}

// Whether the product is 0 for any factors. alpha = 0 hides NaN and infinities, as in BLAS, which
// computes these types on the CPU.
bool reads_no_factors(const at::Tensor& a, ScalarType type, const c10::Scalar& alpha) {
  const bool blas =
      type == ScalarType::Float || type == ScalarType::Double || c10::isComplexType(type);
  return a.size(-1) == 0 || (blas && alpha.equal(0));
}

}  // namespace

int64_t batch_stride(const at::Tensor& t) {
  return t.dim() == 3 && t.size(0) > 1 ? t.stride(0) : 0;
}

uint64_t gemm_problem_key(const GemmProblem& p) {
  return pack_sizes({p.m, p.n, p.k, p.batches}) << 16 | static_cast<uint64_t>(p.operands) << 2 |
         uint64_t{p.a.transposed} << 1 | uint64_t{p.b.transposed};
}

int64_t c_batch_stride(const GemmProblem& p) {
  return p.has_c && p.c.dim() == 3 ? p.c.stride(0) : 0;
}

GemvProblem as_gemv(const GemmProblem& p) {
  const bool row = p.m == 1;  // the vector is A, the matrix is B
  const GemmOperand& vector = row ? p.a : p.b;
  const GemmOperand& matrix = row ? p.b : p.a;
  const int64_t m = row ? p.n : p.m, along = row ? -1 : -2;
  // The vector is stored as [1][k] or [k][1]. It has no gaps if it is [1][k] and not transposed, or
  // [k][1] and transposed.
  return {matrix,
          vector,
          row ? !matrix.transposed : matrix.transposed,
          m,
          vector.transposed == row ? vector.ld : 1,
          m == 1 ? 1 : p.out.stride(along),
          p.has_c ? p.c.stride(along) : 0,
          p.epilogue.residual_stride(along)};
}

Defines GemmCode::defines() const {
  Defines defines = element_defines(type);
  defines.set("TRANS_A", trans_a).set("TRANS_B", trans_b).set("HAS_C", has_c);
  epilogue.define(defines);
  return defines;
}

GemmCode gemm_code(const GemmProblem& p) {
  return {p.type, p.a.transposed, p.b.transposed, p.has_c, p.epilogue.code()};
}

GemmCode gemm_code(const GemmProblem& p, const GemvProblem& v) {
  return {p.type, v.transposed, false, p.has_c, p.epilogue.code()};
}

void add_gemm_tensors(Arguments& arguments, const GemmProblem& p, const at::Tensor& a,
                      const at::Tensor& b) {
  arguments.add(view(p.out))
      .add(view_or(a, p.out))
      .add(view_or(b, p.out))
      .add(view(p.has_c ? p.c : p.out))
      .add(p.epilogue.residual_or(p.out));
}

void add_gemm_sizes(Arguments& arguments, const GemmProblem& p, const GemmSizes& sizes) {
  arguments.add(sizes);
  add_number(arguments, p.alpha, p.compute);
  add_number(arguments, p.beta, p.compute);
}

GemmSizes gemm_sizes(const GemmProblem& p) {
  GemmSizes sizes{};
  sizes.ld_a = p.a.ld;
  sizes.ld_b = p.b.ld;
  sizes.ld_out = p.out.size(-2) == 1 ? p.n : p.out.stride(-2);
  sizes.residual_row = p.epilogue.residual_stride(-2);
  sizes.residual_column = p.epilogue.residual_stride(-1);
  sizes.a_batch = p.a.batch;
  sizes.b_batch = p.b.batch;
  sizes.c_batch = c_batch_stride(p);
  sizes.m = static_cast<int32_t>(p.m);
  sizes.n = static_cast<int32_t>(p.n);
  sizes.k = static_cast<int32_t>(p.k);
  if (p.has_c) {
    sizes.c_row = p.c.stride(-2);
    sizes.c_column = p.c.stride(-1);
  }
  if (p.out.dim() == 3) {
    sizes.residual_batch = p.epilogue.residual_stride(0);
    sizes.out_batch = p.out.stride(0);
  }
  return sizes;
}

GemmSizes gemm_sizes(const GemmProblem& p, const GemvProblem& v) {
  GemmSizes sizes = gemm_sizes(p);
  sizes.ld_a = v.matrix.ld;
  sizes.ld_b = v.x_stride;
  sizes.ld_out = v.out_stride;
  sizes.c_row = v.c_stride;
  sizes.residual_row = v.residual_stride;
  sizes.a_batch = v.matrix.batch;
  sizes.b_batch = v.vector.batch;
  sizes.m = static_cast<int32_t>(v.m);
  return sizes;
}

void check_has_products(const Device& device, ScalarType type, std::string_view op) {
  if (type == ScalarType::Bool || c10::isBarebonesUnsignedType(type)) refuse_type(device, type, op);
}

void gemm(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const c10::Scalar& alpha,
          const at::Tensor& c, const c10::Scalar& beta, const Epilogue& epilogue) {
  if (out.numel() == 0) return;
  Device& device = ocl_device(out);
  check_device_has(device, out.scalar_type(), "matmul");
  check_has_products(device, a.scalar_type(), "matmul");
  expect_type(b, a.scalar_type(), "matmul");
  TORCH_CHECK(a.scalar_type() == out.scalar_type() || widens(a.scalar_type(), out.scalar_type()),
              "matmul: the product of ", a.scalar_type(),
              " matrices cannot be written to a result of ", out.scalar_type(), " (on ",
              device.label(), ")");
  if (is_costly(epilogue.activation)) {
    const auto name = kActivationNames[static_cast<size_t>(epilogue.activation)];
    check_floating(device, out.scalar_type(), name);
  }
  if (epilogue.residual.defined() && !(c.defined() && !beta.equal(0))) {
    return gemm(out, a, b, alpha, epilogue.residual, 1, {epilogue.activation, {}});
  }
  if (reads_no_factors(a, out.scalar_type(), alpha) && !(a.size(-1) == 0 && alpha.equal(1))) {
    return gemm(out, a.narrow(-1, 0, 0), b.narrow(-2, 0, 0), 1, c, beta, epilogue);
  }
  const bool has_c = c.defined() && !beta.equal(0);
  const at::Tensor expanded = has_c ? c.expand_as(out) : c;
  if (has_c && c.is_alias_of(out)) at::assert_no_partial_overlap(out, expanded);
  if (out.is_complex()) return gemm_complex(out, a, b, alpha, expanded, beta);
  if (!row_major(out)) {
    if (row_major(out.mT())) {
      // The transposed product, which writes the same memory row by row.
      const at::Tensor& residual = epilogue.residual;
      return gemm(out.mT(), b.mT(), a.mT(), alpha, has_c ? expanded.mT() : c, beta,
                  {epilogue.activation, residual.defined() ? residual.mT() : residual});
    }
    const at::Tensor dense = at::empty(out.sizes(), out.options());
    gemm(dense, a, b, alpha, c, beta, epilogue);
    out.copy_(dense);
    return;
  }
  const GemmOperand left = as_operand(a), right = as_operand(b);
  TORCH_CHECK(out.size(-2) <= INT32_MAX && out.size(-1) <= INT32_MAX && a.size(-1) <= INT32_MAX,
              "matmul: a matrix with more than 2^31 - 1 rows or columns is not supported on ocl");
  const GemmProblem problem{device,
                            stream_of(out),
                            out.scalar_type(),
                            compute_type(out.scalar_type()),
                            a.scalar_type(),
                            out.size(-2),
                            out.size(-1),
                            a.size(-1),
                            out.dim() == 3 ? out.size(0) : 1,
                            has_c,
                            left,
                            right,
                            out,
                            expanded,
                            alpha,
                            beta,
                            epilogue};
  if (const GemmAlgorithm* chosen = choose_gemm(problem)) return chosen->run(problem);
  gemm(out, a.to(out.scalar_type()), b.to(out.scalar_type()), alpha, c, beta, epilogue);
}

}  // namespace ocl
