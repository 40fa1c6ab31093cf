// The unique operators: distinct elements, distinct slices of a dimension, and runs of equal
// elements.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sort.h>

#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "native/unique.h"

namespace ocl {
namespace {

using at::Tensor;
using Unique = std::tuple<Tensor, Tensor, Tensor>;

// Runs of equal adjacent elements. `begins` is true where a run begins. `first`: positions where
// runs begin. `number`: the index of each element's run; `counts`: the lengths of runs; both are
// empty unless wanted.
struct Runs {
  Tensor first, number, counts;

  Runs(const Tensor& begins, bool want_number, bool want_counts) {
    const at::TensorOptions options = begins.options().dtype(at::kLong);
    first = begins.nonzero().reshape({-1});
    number = want_number ? begins.cumsum(0, at::kLong).sub_(1) : at::empty({0}, options);
    counts = want_counts
                 ? at::cat({first.slice(0, 1), at::scalar_tensor(begins.numel(), options).view(1)})
                       .sub_(first)
                 : at::empty({0}, options);
  }
};

// Whether an element (or row) differs from the one before it.
Tensor begins_of(const Tensor& elements) {
  Tensor differs = elements.slice(0, 1).ne(elements.slice(0, 0, elements.size(0) - 1));
  if (differs.dim() > 1) differs = differs.any(1);
  return at::cat({at::ones({1}, differs.options()), differs});
}

// Undoes a sort: returns the numbers in the order before `order` was applied.
Tensor unsorted(const Tensor& number, const Tensor& order) {
  return at::empty_like(number).scatter_(0, order, number);
}

Unique nothing(const Tensor& self, bool return_inverse) {
  const at::TensorOptions options = self.options().dtype(at::kLong);
  return {at::empty({0}, self.options()),
          return_inverse ? at::empty(self.sizes(), options) : at::empty({0}, options),
          at::empty({0}, options)};
}

Unique unique_sorted(const Tensor& self, bool return_inverse, bool return_counts) {
  if (self.numel() == 0) return nothing(self, return_inverse);
  const auto [values, order] =
      at::sort(self.reshape({-1}), /*stable=*/true, 0, /*descending=*/false);
  const Runs runs(begins_of(values), return_inverse, return_counts);
  return {values.index_select(0, runs.first),
          return_inverse ? unsorted(runs.number, order).view(self.sizes()) : runs.number,
          runs.counts};
}

// The order that sorts rows [n][columns] lexicographically: by the last column first.
Tensor order_of_rows(const Tensor& rows) {
  Tensor order = at::arange(rows.size(0), rows.options().dtype(at::kLong));
  for (int64_t column = rows.size(1) - 1; column >= 0; --column) {
    const Tensor keys = rows.select(1, column).index_select(0, order);
    order = order.index_select(
        0, std::get<1>(at::sort(keys, /*stable=*/true, 0, /*descending=*/false)));
  }
  return order;
}

Unique unique_slices(const Tensor& self, int64_t dim, bool consecutive, bool return_inverse,
                     bool return_counts) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  const int64_t size = self.size(dim);
  const auto zero_sizes = std::count(self.sizes().begin(), self.sizes().end(), int64_t{0});
  if (size == 0) {
    TORCH_CHECK(zero_sizes == 1, "Number of zero sized dimensions is more than one, so unique ",
                "cannot be applied");
    auto [values, inverse, counts] = nothing(self, false);
    return {at::empty(self.sizes(), self.options()), inverse, counts};
  }
  TORCH_CHECK(
      zero_sizes == 0,
      "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
  const Tensor slices = self.movedim(dim, 0).contiguous(), rows = slices.view({size, -1});
  const Tensor order = consecutive ? Tensor() : order_of_rows(rows);
  const Runs runs(begins_of(consecutive ? rows : rows.index_select(0, order)), return_inverse,
                  return_counts);
  const Tensor chosen = consecutive ? runs.first : order.index_select(0, runs.first);
  return {slices.index_select(0, chosen).movedim(0, dim),
          return_inverse && !consecutive ? unsorted(runs.number, order) : runs.number, runs.counts};
}

}  // namespace

namespace native {

OCL_NATIVE("_unique", unique);
std::tuple<Tensor, Tensor> unique(const Tensor& self, bool /*sorted*/, bool return_inverse) {
  auto [values, inverse, counts] = unique_sorted(self, return_inverse, false);
  return {values, inverse};
}

OCL_NATIVE_AS("_unique2", unique2, unique_sorted(self, return_inverse, return_counts))

OCL_NATIVE("unique_consecutive", unique_consecutive);
Unique unique_consecutive(const Tensor& self, bool return_inverse, bool return_counts,
                          std::optional<int64_t> dim) {
  if (dim && !(*dim == 0 && self.dim() == 1)) {
    return unique_slices(self, *dim, true, return_inverse, return_counts);
  }
  if (self.numel() == 0) return nothing(self, return_inverse);
  const Tensor values = self.reshape({-1});
  const Runs runs(begins_of(values), return_inverse, return_counts);
  return {values.index_select(0, runs.first),
          return_inverse ? runs.number.view(self.sizes()) : runs.number, runs.counts};
}

OCL_NATIVE_AS("unique_dim", unique_dim,
              unique_slices(self, dim, false, return_inverse, return_counts))

OCL_NATIVE_AS("unique_dim_consecutive", unique_dim_consecutive,
              unique_slices(self, dim, true, return_inverse, return_counts))

}  // namespace native
}  // namespace ocl
