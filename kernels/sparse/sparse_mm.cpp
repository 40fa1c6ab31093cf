// addmm of a sparse matrix, in coordinate (COO) or compressed row (CSR) form, with a dense one.
#include <ATen/ceil_div.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_convert_indices_from_coo_to_csr.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "backend/queue/fault.h"
#include "kernels/core/grids/grid.h"
#include "kernels/core/grids/stripes.h"
#include "kernels/core/operators/check_range.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/dispatch/fallback.h"
#include "kernels/pointwise/expression.h"

namespace ocl {
namespace {

using at::Scalar;
using at::Tensor;

struct SparseMm {
  const char* kernel;
  ScalarType type, index;

  KernelSource source(Device& device, size_t group) const {
    const ScalarType compute = compute_type(type);
    Defines defines = compute_defines(compute);
    defines.set("IN", dtype_name(type));
    if (device.family() == KernelFamily::kCpu) {
      defines.set("WIDTH", static_cast<int64_t>(vector_lanes(device, compute)));
    }
    define_grid(defines, device);
    define_stripes(defines, device, group);
    defines.set("INDEX", index == ScalarType::Int ? "int" : "long");
    return {"sparse_mm.cl", kernel, defines};
  }
};

// Sites for wrong indices: torch.load does not check the indices in files. The error classes are
// those of the CPU's addmm.
int fault_of(const char* what, const char* bound) {
  return fault_site({"addmm", FaultClass::kRuntime, what, bound});
}

// The product of a matrix of `rows` rows in CSR form with a dense one.
Tensor multiply(const Tensor& offsets, const Tensor& columns, const Tensor& values,
                const Tensor& dense, int64_t rows) {
  static const int of_offset = fault_of("offset", "offsets that ascend from 0 and end at most at"),
                   of_column = fault_of("column", "columns");
  TORCH_CHECK(offsets.dim() == 1 && offsets.numel() == rows + 1 &&
                  columns.numel() == values.numel() &&
                  (columns.scalar_type() == at::kInt || columns.scalar_type() == at::kLong) &&
                  offsets.scalar_type() == columns.scalar_type(),
              "addmm: a sparse matrix of ", rows, " rows has ", offsets.numel(), " offsets (",
              offsets.scalar_type(), "), ", columns.numel(), " columns (", columns.scalar_type(),
              ") and ", values.numel(), " values");
  const Tensor out = at::empty({rows, dense.size(1)}, dense.options());
  if (out.numel() == 0) return out;
  if (values.numel() == 0) return out.zero_();
  Device& device = ocl_device(dense);
  check_device_has(device, dense.scalar_type(), "sparse_mm");
  const auto units = static_cast<uint64_t>(rows), width = static_cast<uint64_t>(dense.size(1));
  const uint64_t lanes = device.family() == KernelFamily::kCpu
                             ? vector_lanes(device, compute_type(dense.scalar_type()))
                             : 1;
  const auto cost = static_cast<size_t>(values.numel() / rows + 1) * lanes;
  const UnitGrid grid = unit_grid(device, units, at::ceil_div(width, lanes), cost);
  const Tensor number = values.contiguous(), matrix = dense.contiguous(),
               column = columns.contiguous(), offset = offsets.contiguous();
  static constexpr const char *kEach = "sparse_mm", *kLong = "sparse_mm_long";
  const auto run = [&](const Kernel& kernel, const Range& global, const Range& local, auto last) {
    launch(stream_of(dense), kernel, global, local, view(offset), view(column), view(number),
           view(matrix), view(out), units, width, last, int64_t{values.numel()},
           int64_t{dense.size(0)}, of_offset, FaultArgument{of_column});
  };
  const auto kernel_of = [&](const char* kernel) -> const Kernel& {
    return find_kernel(device, SparseMm{kernel, dense.scalar_type(), columns.scalar_type()});
  };
  run(kernel_of(kEach), grid.global, grid.local, grid.per_item);
  if (may_be_long(device, static_cast<size_t>(values.numel()))) {
    const Kernel& kernel = kernel_of(kLong);
    const StripeGrid stripes = stripe_grid(kernel, units, width);
    run(kernel, stripes.global, stripes.local, stripes.share);
  }
  return out;
}

// beta * addend + alpha * product
constexpr PointwiseOp kScaled{"sparse_addmm", "C(s0) * a"};
constexpr PointwiseOp kScaledSum{"sparse_addmm_add", "C(s0) * a + C(s1) * b"};

void finish_product(const Tensor& out, const Tensor& product, const Tensor& addend,
                    const Scalar& beta, const Scalar& alpha) {
  const ScalarType compute = compute_type(out.scalar_type());
  if (beta.toComplexDouble() == 0.0) {
    evaluate(kScaled, out, {product}, compute, {alpha});
  } else {
    evaluate(kScaledSum, out, {product, addend}, compute, {alpha, beta});
  }
}

bool known(const Tensor& tensor) {
  return has_kernel_type(tensor.scalar_type()) && tensor.scalar_type() != ScalarType::Bool;
}

Tensor product_of_coo(const Tensor& sparse, const Tensor& dense) {
  const Tensor sorted = sparse.coalesce();
  const Tensor indices = sorted._indices();
  static const int of_row = fault_of("row", "rows");
  check_range(indices[0], {0, static_cast<double>(sparse.size(0)) - 1, sparse.size(0), of_row});
  const Tensor offsets =
      at::_convert_indices_from_coo_to_csr(indices[0].contiguous(), sparse.size(0));
  return multiply(offsets, indices[1], sorted._values(), dense, sparse.size(0));
}

void check_product(const Tensor& addend, const Tensor& sparse, const Tensor& dense) {
  TORCH_CHECK(sparse.dim() == 2 && dense.dim() == 2 && addend.dim() <= 2,
              "addmm: expected matrices, got ", sparse.dim(), "D and ", dense.dim(), "D tensors");
  TORCH_CHECK(sparse.size(1) == dense.size(0), "mat1 and mat2 shapes cannot be multiplied (",
              sparse.size(0), "x", sparse.size(1), " and ", dense.size(0), "x", dense.size(1), ")");
  TORCH_CHECK(sparse.scalar_type() == dense.scalar_type(),
              "addmm: expected both matrices to have the same dtype, but got ",
              sparse.scalar_type(), " and ", dense.scalar_type());
}

Tensor& addmm_out(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                  const Scalar& alpha, Tensor& out) {
  const bool coo = mat1.is_sparse() && mat1.dense_dim() == 0;
  const bool csr = mat1.layout() == c10::kSparseCsr && mat1.dim() == 2 && mat1.dense_dim() == 0;
  if (!(coo || csr) || mat2.layout() != c10::kStrided || self.layout() != c10::kStrided ||
      out.layout() != c10::kStrided || !known(mat2)) {
    return at::native::call_fallback_fn<&layout_fallback, at::_ops::addmm_out>::call(
        self, mat1, mat2, beta, alpha, out);
  }
  check_product(self, mat1, mat2);
  const Tensor product =
      coo ? product_of_coo(mat1, mat2)
          : multiply(mat1.crow_indices(), mat1.col_indices(), mat1.values(), mat2, mat1.size(0));
  const Tensor addend = self.expand_as(product);
  if (out.is_same(self) && out.sizes() == product.sizes()) {
    finish_product(out, product, addend, beta, alpha);
    return out;
  }
  out.resize_(product.sizes());
  finish_product(out, product, addend, beta, alpha);
  return out;
}

Tensor addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
             const Scalar& alpha) {
  Tensor out = at::empty({0}, mat2.options().layout(c10::kStrided));
  return addmm_out(self, mat1, mat2, beta, alpha, out);
}

Tensor& addmm_(Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
               const Scalar& alpha) {
  return addmm_out(self, mat1, mat2, beta, alpha, self);
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  m.impl("addmm", &addmm);
  m.impl("addmm_", &addmm_);
  m.impl("addmm.out", &addmm_out);
}
TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) { m.impl("addmm.out", &addmm_out); }

}  // namespace
}  // namespace ocl
