// Operators on the entries of sparse tensors that PyTorch has only for its own backends.
// kernels/codegen/generate.py registers the others, whose implementations CPU and CUDA share.
#include <ATen/ExpandUtils.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mul_native.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "kernels/core/tensors/tensors.h"
#include "kernels/dispatch/fallback.h"

namespace ocl {
namespace {

using at::Scalar;
using at::Tensor;

// Maps each column of indices to one number, keeping the order.
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
                    sums.to(ScalarType::Int)
                        .index_add_(0, group, values.index_select(0, order).to(ScalarType::Int))
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
    const int64_t truth = alpha.to<bool>();
    return add_to_dense(dense.to(ScalarType::Int), sparse.to(ScalarType::Int), truth)
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
    if (other._nnz() == 0) return out.copy_(self);
    TORCH_CHECK_NOT_IMPLEMENTED(type != ScalarType::Bool,
                                "\"cadd_sparse\" not implemented for 'Bool'");
    const Tensor sum = at::_sparse_coo_tensor_unsafe(
        at::cat({self._indices(), other._indices()}, 1),
        at::cat({self._values().to(type), other._values().to(type).mul(alpha)}, 0), self.sizes());
    // The sum of coalesced tensors is coalesced, as on the CPU.
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
  const auto type = at::result_type(left, right);
  const Tensor a = left.to(type).coalesce(), b = right.to(type).coalesce();
  const auto sizes = at::infer_size(a.sizes(), b.sizes());
  if (a._nnz() == 0 || b._nnz() == 0) {
    out.sparse_resize_and_clear_(sizes, a.sparse_dim(), a.dense_dim());
    return;
  }
  check_castable(type, out, " in mul operation");
  const auto [place, found] = find_entries(a, b);
  const Tensor in_a = found.nonzero().squeeze(1), in_b = place.index_select(0, in_a);
  const Tensor values = a._values().index_select(0, in_a).mul(b._values().index_select(0, in_b));
  const Tensor product =
      at::_sparse_coo_tensor_unsafe(a._indices().index_select(1, in_a), values, sizes);
  // Writes the result last, because it may be one of the factors.
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

// The caller marks `entries` as coalesced even if some occur twice.
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
  return at::native::mul_out_sparse_cpu(self, other, out);  // operators that change only the values
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  m.impl("_coalesce", &coalesce);
  m.impl("add.out", &add_out);
  m.impl("mul.out", &mul_out);
}

}  // namespace
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
