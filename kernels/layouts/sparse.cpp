// Operators on sparse tensors that PyTorch has only for its own backends.
// kernels/codegen/generate.py registers the others, whose implementations CPU and CUDA share.
#include <ATen/ExpandUtils.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/ops/_convert_indices_from_coo_to_csr.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul_native.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "kernels/core/grid.h"
#include "kernels/core/registration.h"
#include "kernels/core/tensors.h"
#include "kernels/dispatch/fallback.h"
#include "kernels/pointwise/expression.h"
#include "native/sparse.h"

namespace ocl {
namespace {

using at::Scalar;
using at::Tensor;

const char* index_type(const Tensor& indices) {
  return indices.scalar_type() == ScalarType::Int ? "int" : "long";
}

const Kernel& find(Device& device, const char* kernel, ScalarType type, const Tensor& in,
                   const Tensor& out) {
  static Site site;
  const KernelKey key{
      &site,
      {reinterpret_cast<uint64_t>(kernel), static_cast<uint64_t>(type),
       static_cast<uint64_t>(in.scalar_type()), static_cast<uint64_t>(out.scalar_type())}};
  return find_kernel(device, key, [&] {
    Defines defines;
    if (type != ScalarType::Undefined) {
      const ScalarType compute = compute_type(type);
      defines = compute_defines(compute);
      defines.set("IN", dtype_name(type));
      if (device.family() == KernelFamily::kCpu) {
        defines.set("WIDTH", static_cast<int64_t>(vector_lanes(device, compute)));
      }
    }
    define_grid(defines, device);
    defines.set("INDEX", index_type(in)).set("OUT", index_type(out));
    return KernelSource{"sparse.cl", kernel, defines};
  });
}

// The product of a matrix of `rows` rows in CSR form with a dense one.
Tensor multiply(const Tensor& offsets, const Tensor& columns, const Tensor& values,
                const Tensor& dense, int64_t rows) {
  static constexpr const char* kName = "sparse_mm";
  const Tensor out = at::empty({rows, dense.size(1)}, dense.options());
  if (out.numel() == 0) return out;
  if (values.numel() == 0) return out.zero_();
  Device& device = ocl_device(dense);
  check_device_has(device, dense.scalar_type(), kName);
  const auto units = static_cast<uint64_t>(rows), width = static_cast<uint64_t>(dense.size(1));
  const uint64_t lanes = device.family() == KernelFamily::kCpu
                             ? vector_lanes(device, compute_type(dense.scalar_type()))
                             : 1;
  const auto cost = static_cast<size_t>(values.numel() / rows + 1) * lanes;
  const UnitGrid grid = unit_grid(device, units, (width + lanes - 1) / lanes, cost);
  const Tensor number = values.contiguous(), matrix = dense.contiguous(),
               column = columns.contiguous(), offset = offsets.contiguous();
  launch(stream_of(dense), find(device, kName, dense.scalar_type(), columns, columns), grid.global,
         grid.local, view(offset), view(column), view(number), view(matrix), view(out), units,
         width, grid.per_item);
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

// One number for each column of indices, in the same order.
Tensor flatten(const Tensor& indices, c10::IntArrayRef sizes) {
  Tensor flat = at::zeros({indices.size(1)}, indices.options());
  for (int64_t i = 0; i < indices.size(0); ++i) flat = flat.mul(sizes[i]).add(indices[i]);
  return flat;
}

Tensor coalesce(const Tensor& self) {
  const Tensor indices = self._indices(), values = self._values();
  const auto finished = [&](const Tensor& new_indices, const Tensor& new_values) {
    Tensor result = at::_sparse_coo_tensor_unsafe(new_indices, new_values, self.sizes());
    return result._coalesced_(true);
  };
  if (self._nnz() < 2) return finished(indices.clone(), values.clone());
  const auto [sorted, order] =
      at::sort(flatten(indices, self.sizes()), /*stable=*/true, 0, /*descending=*/false);
  const Tensor is_first = at::cat({at::ones({1}, sorted.options().dtype(ScalarType::Bool)),
                                   sorted.slice(0, 1).ne(sorted.slice(0, 0, sorted.size(0) - 1))});
  const Tensor firsts = is_first.nonzero().squeeze(1);
  const Tensor new_indices = indices.index_select(1, order.index_select(0, firsts));
  if (firsts.size(0) == sorted.size(0)) {
    return finished(new_indices, values.index_select(0, order));
  }
  const Tensor group = is_first.cumsum(0).sub(1);
  at::DimVector shape(values.sizes());
  shape[0] = firsts.size(0);
  const Tensor sums = at::zeros(shape, values.options());
  if (values.scalar_type() == ScalarType::Bool) {
    return finished(new_indices,
                    sums.to(ScalarType::Byte)
                        .index_add_(0, group, values.index_select(0, order).to(ScalarType::Byte))
                        .to(ScalarType::Bool));
  }
  return finished(new_indices, sums.index_add_(0, group, values.index_select(0, order)));
}

// dense + alpha * sparse
Tensor add_to_dense(const Tensor& dense, const Tensor& sparse, const Scalar& alpha) {
  const ScalarType type = at::result_type(dense, sparse);
  Tensor result = dense.expand(sparse.sizes()).to(type, false, true, c10::MemoryFormat::Contiguous);
  const int64_t sparse_dim = sparse.sparse_dim();
  at::DimVector shape{-1};
  for (int64_t i = sparse_dim; i < sparse.dim(); ++i) shape.push_back(sparse.size(i));
  if (result.numel() == 0) return result;
  if (type == ScalarType::Bool) {
    return add_to_dense(dense.to(ScalarType::Byte), sparse.to(ScalarType::Byte), 1)
        .to(ScalarType::Bool);
  }
  result.view(shape).index_add_(0, flatten(sparse._indices(), sparse.sizes()),
                                sparse._values().to(type), alpha);
  return result;
}

void check_castable(ScalarType type, const Tensor& out, const char* where) {
  TORCH_CHECK(c10::canCast(type, out.scalar_type()), "Can't convert result type ", type,
              " to output ", out.scalar_type(), where);
}

Tensor& add_out(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
  TORCH_CHECK(!self.is_sparse() || other.is_sparse(),
              "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
  const ScalarType type = at::result_type(self, other);
  at::native::alpha_check(type, alpha);
  as_element(alpha, type);
  check_castable(type, out, " in add operation");
  if (!self.is_sparse() && other.is_sparse() && !out.is_sparse() &&
      has_kernel_type(self.scalar_type()) && self.sizes() == other.sizes()) {
    const Tensor sum = add_to_dense(self, other, alpha);
    if (out.sizes() != sum.sizes()) out.resize_(sum.sizes());
    return out.copy_(sum);
  }
  if (self.is_sparse() && other.is_sparse() && out.is_sparse() &&
      self.sparse_dim() == other.sparse_dim() && self.sizes() == other.sizes()) {
    TORCH_CHECK_NOT_IMPLEMENTED(type != ScalarType::Bool,
                                "\"cadd_sparse\" not implemented for 'Bool'");
    const Tensor sum = at::_sparse_coo_tensor_unsafe(
        at::cat({self._indices(), other._indices()}, 1),
        at::cat({self._values().to(type), other._values().to(type).mul(alpha)}, 0), self.sizes());
    // As on the CPU, the sum of coalesced tensors is coalesced.
    return out.copy_(self.is_coalesced() && other.is_coalesced() ? sum.coalesce() : sum);
  }
  return at::native::call_fallback_fn<&layout_fallback, at::_ops::add_out>::call(self, other, alpha,
                                                                                 out);
}

// For each entry of `sparse`, its position among the entries of `sorted`, and whether it exists
// there. `sorted` is coalesced and not empty.
std::pair<Tensor, Tensor> find_entries(const Tensor& sparse, const Tensor& sorted) {
  const auto sizes = sorted.sizes().slice(0, sorted.sparse_dim());
  TORCH_CHECK(sparse.sizes().slice(0, sparse.sparse_dim()) == sizes, "sparse tensors of shape ",
              sparse.sizes(), " and ", sorted.sizes(), " differ in their sparse dimensions");
  const Tensor wanted = flatten(sparse._indices(), sizes), all = flatten(sorted._indices(), sizes);
  const Tensor place = at::searchsorted(all, wanted).clamp_max(all.numel() - 1);
  return {place, all.index_select(0, place).eq(wanted)};
}

// The products of the entries that both tensors have. Their dense dimensions may differ.
void multiply_sparse(const Tensor& left, const Tensor& right, Tensor& out) {
  const Tensor a = left.coalesce(), b = right.coalesce();
  const auto type = at::result_type(a, b);
  check_castable(type, out, "");
  const auto sizes = at::infer_size(a.sizes(), b.sizes());
  if (a._nnz() == 0 || b._nnz() == 0) {
    out.sparse_resize_and_clear_(sizes, a.sparse_dim(), a.dense_dim());
    return;
  }
  const auto [place, found] = find_entries(a, b);
  const Tensor in_a = found.nonzero().squeeze(1), in_b = place.index_select(0, in_a);
  const Tensor values =
      a._values().index_select(0, in_a).to(type).mul(b._values().index_select(0, in_b).to(type));
  const Tensor product =
      at::_sparse_coo_tensor_unsafe(a._indices().index_select(1, in_a), values, sizes);
  // Only now, because the result may be one of the factors.
  out.sparse_resize_and_clear_(sizes, a.sparse_dim(), a.dense_dim());
  out.copy_(product._coalesced_(true));
}

// Sets `out` to a tensor with the entries of `like`: `values` where `found`, else zeros.
void keep_found(const Tensor& values, const Tensor& found, const Tensor& like, Tensor& out) {
  at::DimVector shape(values.dim(), 1);
  shape[0] = -1;
  out.sparse_resize_and_clear_(like.sizes(), like.sparse_dim(), like.dense_dim());
  out.copy_(at::_sparse_coo_tensor_unsafe(
      like._indices(), values.masked_fill(found.logical_not().view(shape), 0), like.sizes()));
}

// The caller marks `entries` as coalesced even where some occur twice.
Tensor merged(const Tensor& entries, const Tensor& values) {
  return coalesce(at::_sparse_coo_tensor_unsafe(entries._indices(), values, entries.sizes()));
}

void mask_intersection(Tensor& out, const Tensor& sparse, const Tensor& mask,
                       const std::optional<Tensor>& /*hash*/) {
  const Tensor sorted = merged(sparse, sparse._values());
  const auto [place, found] = find_entries(mask, sorted);
  keep_found(sorted._values().index_select(0, place), found, mask, out);
}

void mask_projection(Tensor& out, const Tensor& mask, const Tensor& sparse,
                     const std::optional<Tensor>& /*hash*/, bool accumulate_matches) {
  const Tensor sorted = merged(mask, at::ones_like(mask._values()));
  const auto [place, found] = find_entries(sparse, sorted);
  Tensor values = sparse._values();
  if (accumulate_matches) values = values.mul(sorted._values().index_select(0, place));
  keep_found(values, found, sparse, out);
}

Tensor& mul_out(const Tensor& self, const Tensor& other, Tensor& out) {
  const auto has_kernel = [](const Tensor& t) {
    return t.is_sparse() || t.layout() == c10::kStrided;
  };
  if (!has_kernel(self) || !has_kernel(other) || !out.is_sparse()) {
    return at::native::call_fallback_fn<&layout_fallback, at::_ops::mul_out>::call(self, other,
                                                                                   out);
  }
  if (self.is_sparse() && other.is_sparse() && self.dim() > 0 && other.dim() > 0) {
    multiply_sparse(self, other, out);
    return out;
  }
  return at::native::mul_out_sparse_cpu(self, other, out);  // operators on entries only
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  m.impl("_coalesce", &coalesce);
  m.impl("addmm", &addmm);
  m.impl("addmm_", &addmm_);
  m.impl("addmm.out", &addmm_out);
  m.impl("add.out", &add_out);
  m.impl("mul.out", &mul_out);
}
TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) { m.impl("addmm.out", &addmm_out); }

}  // namespace

namespace native {

// Conversions from dense tensors.
OCL_SHARED("_to_sparse,_to_sparse_csr,_to_sparse_csc,_to_sparse_bsr,_to_sparse_bsc");

OCL_STRUCTURED("_convert_indices_from_coo_to_csr.out", convert_indices_from_coo_to_csr)
(const Tensor& self, int64_t size, bool /*out_int32*/, const Tensor& out) {
  if (self.numel() == 0) {
    out.zero_();
    return;
  }
  static constexpr const char* kName = "row_offsets";
  const DenseOutput result(out);
  const Tensor numbers = self.contiguous();
  Device& device = ocl_device(out);
  const auto count = static_cast<uint64_t>(numbers.numel());
  const UnitGrid grid = unit_grid(device, count + 1, 1);
  launch(stream_of(out), find(device, kName, ScalarType::Undefined, numbers, out), grid.global,
         grid.local, view(numbers), view(result.tensor()), count, uint64_t{1}, grid.per_item,
         static_cast<uint64_t>(size));
  result.finish();
}

OCL_STRUCTURED("_convert_indices_from_csr_to_coo.out", convert_indices_from_csr_to_coo)
(const Tensor& crow_indices, const Tensor& col_indices, bool /*out_int32*/, bool transpose,
 const Tensor& out) {
  if (col_indices.numel() == 0) {
    out.zero_();
    return;
  }
  static constexpr const char* kName = "row_numbers";
  const int64_t batch_dims = crow_indices.dim() - 1;
  const auto rows = static_cast<uint64_t>(crow_indices.size(-1) - 1),
             count = static_cast<uint64_t>(col_indices.size(-1));
  const Tensor offsets = crow_indices.contiguous();
  const auto batches = static_cast<uint64_t>(offsets.numel()) / (rows + 1);
  if (batch_dims > 0) {
    const Tensor batch_numbers =
        at::ones(crow_indices.sizes().slice(0, batch_dims), crow_indices.options())
            .nonzero()
            .t()
            .unsqueeze(2)
            .expand({batch_dims, static_cast<int64_t>(batches), static_cast<int64_t>(count)});
    out.narrow(0, 0, batch_dims).copy_(batch_numbers.reshape({batch_dims, -1}));
  }
  out.select(0, batch_dims + (transpose ? 0 : 1)).copy_(col_indices.reshape({-1}));
  const DenseOutput numbers(out.select(0, batch_dims + (transpose ? 1 : 0)));
  Device& device = ocl_device(out);
  const UnitGrid grid = unit_grid(device, batches * rows, 1);
  launch(stream_of(out), find(device, kName, ScalarType::Undefined, offsets, out), grid.global,
         grid.local, view(offsets), view(numbers.tensor()), batches * rows, uint64_t{1},
         grid.per_item, rows, count);
  numbers.finish();
}

}  // namespace native
}  // namespace ocl

namespace at::native {

// ATen/native/sparse/SparseStubs.h is not installed.
using FlattenIndices = Tensor (*)(const Tensor&, IntArrayRef);
using MaskIntersection = void (*)(Tensor&, const Tensor&, const Tensor&,
                                  const std::optional<Tensor>&);
using MaskProjection = void (*)(Tensor&, const Tensor&, const Tensor&, const std::optional<Tensor>&,
                                bool);
DECLARE_DISPATCH(FlattenIndices, flatten_indices_stub)
DECLARE_DISPATCH(MaskIntersection, sparse_mask_intersection_out_stub)
DECLARE_DISPATCH(MaskProjection, sparse_mask_projection_out_stub)
REGISTER_PRIVATEUSE1_DISPATCH(flatten_indices_stub, &ocl::flatten)
REGISTER_PRIVATEUSE1_DISPATCH(sparse_mask_intersection_out_stub, &ocl::mask_intersection)
REGISTER_PRIVATEUSE1_DISPATCH(sparse_mask_projection_out_stub, &ocl::mask_projection)

}  // namespace at::native
