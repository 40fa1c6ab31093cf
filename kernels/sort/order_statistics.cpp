// kthvalue, median and nanmedian.
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/sort/sort.h"
#include "native/order_statistics.h"

namespace ocl {
namespace {

using at::Tensor;

constexpr size_t kChunk = 8192;     // the fewest elements per chunk
constexpr int64_t kLongRow = 4096;  // the fewest elements for which counting digits pays

struct Selection {
  const char* kernel;
  ScalarType type;

  KernelSource source(Device&) const {
    return {"order_statistics.cl", kernel, sort_key_defines(type, /*descending=*/false)};
  }
};

// An element of each row, and its position.
struct Picked {
  Tensor values, indices;
};

// `ranks`: for each row, the element's position in the sorted row.
void select(const Tensor& rows, const Tensor& ranks, const Picked& out) {
  Device& device = ocl_device(rows);
  const ScalarType type = rows.scalar_type();
  const auto count = static_cast<size_t>(rows.size(0)), size = static_cast<size_t>(rows.size(1));
  const size_t most = std::max<size_t>(1, device.parameters().tasks / count);
  const size_t chunks = std::clamp<size_t>(size / kChunk, 1, most);
  const Tensor state = at::zeros({rows.size(0), 3}, out.indices.options());
  state.select(1, 1).copy_(ranks);
  const Tensor counts = at::empty({static_cast<int64_t>(count * 256 * chunks)},
                                  out.indices.options().dtype(ScalarType::Int));
  const auto run = [&](const char* name, const Range& grid, const auto&... arguments) {
    launch(stream_of(rows), find_kernel(device, Selection{name, type}), grid, {1}, arguments...);
  };
  for (auto shift = static_cast<uint32_t>(8 * rows.element_size()); shift > 0;) {
    shift -= 8;
    run("select_count", {chunks, count}, view(rows), view(state), view(counts), uint64_t{size},
        uint64_t{chunks}, shift);
    run("select_digit", {count}, view(counts), view(state), uint64_t{chunks}, shift);
  }
  run("select_find", {count}, view(rows), view(state), view(out.values), view(out.indices),
      uint64_t{size}, uint64_t{chunks});
}

// The elements with the given ranks, for the rows of a matrix or of a part of it.
Picked pick(const Tensor& self, int64_t dim, c10::function_ref<Tensor(const Tensor&)> ranks) {
  const Tensor rows = rows_of(self, dim);
  const Picked all{at::empty({rows.size(0)}, rows.options()),
                   at::empty({rows.size(0)}, rows.options().dtype(ScalarType::Long))};
  if (ocl_device(rows).family() == KernelFamily::kCpu && rows.size(1) >= kLongRow) {
    select(rows, ranks(rows), all);
    return all;
  }
  in_parts(rows, [&](int64_t first, const Tensor& part) {
    const auto [sorted, order] = at::sort(part, /*stable=*/true, 1, /*descending=*/false);
    const Tensor places = ranks(part).unsqueeze(1);
    const auto put = [&](const Tensor& out, const Tensor& from) {
      out.narrow(0, first, part.size(0)).copy_(from.gather(1, places).squeeze(1));
    };
    put(all.values, sorted);
    put(all.indices, order);
  });
  return all;
}

Tensor rank_of_all(const Tensor& rows, int64_t rank) {
  return at::full({rows.size(0)}, rank, rows.options().dtype(ScalarType::Long));
}

// Medians along a dimension. `skip_nan` ignores NaN. Otherwise the first NaN is the result, if
// there is one: it comes after the numbers.
Picked medians(const Tensor& self, int64_t dim, bool skip_nan) {
  return pick(self, dim, [&](const Tensor& rows) {
    const int64_t size = rows.size(1);
    if (!rows.is_floating_point()) return rank_of_all(rows, (size - 1) / 2);
    const Tensor numbers = at::isnan(rows).sum(1).neg().add(size);
    const Tensor middle = numbers.sub(1).clamp_min(0).floor_divide(2);
    return skip_nan ? middle : at::where(numbers.eq(size), middle, numbers);
  });
}

Tensor median_of_all(const Tensor& self, bool skip_nan) {
  if (self.numel() == 0) {
    return at::full({}, std::numeric_limits<float>::quiet_NaN()).to(self.options());
  }
  return medians(self.reshape({-1}), 0, skip_nan).values.reshape({});
}

std::tuple<Tensor&, Tensor&> write(const Picked& picked, at::IntArrayRef shape, Tensor& values,
                                   Tensor& indices) {
  values.copy_(picked.values.view(shape));
  indices.copy_(picked.indices.view(shape));
  return {values, indices};
}

std::tuple<Tensor&, Tensor&> median_out(const char* op, const Tensor& self, int64_t dim,
                                        bool keepdim, Tensor& values, Tensor& indices,
                                        bool skip_nan) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (self.dim() > 0) at::native::zero_numel_check_dims(self, dim, op);
  TORCH_CHECK(values.scalar_type() == self.scalar_type(), op, ": expected values of type ",
              self.scalar_type(), " but got ", values.scalar_type());
  TORCH_CHECK(indices.scalar_type() == ScalarType::Long, op,
              ": expected indices of type Long but got ", indices.scalar_type());
  const at::DimVector shape = at::meta::get_reduction_shape(self, dim, keepdim);
  values.resize_(shape);
  indices.resize_(shape);
  if (values.numel() == 0) return {values, indices};
  if (self.dim() == 0) {
    values.copy_(self);
    indices.zero_();
    return {values, indices};
  }
  return write(medians(self, dim, skip_nan), shape, values, indices);
}

}  // namespace

namespace native {

OCL_NATIVE("kthvalue.values", kthvalue_out);
std::tuple<Tensor&, Tensor&> kthvalue_out(const Tensor& self, int64_t k, int64_t dim_any,
                                          bool keepdim, Tensor& values, Tensor& indices) {
  const int64_t dim = at::maybe_wrap_dim(dim_any, self.dim(), /*wrap_scalar=*/true);
  const int64_t size = self.dim() > 0 ? self.size(dim) : 1;
  if (self.dim() > 0) at::native::zero_numel_check_dims(self, dim, "kthvalue()");
  TORCH_CHECK(k >= 1 && k <= size, "kthvalue(): selected number k out of range for dimension ",
              dim);
  at::assert_no_overlap(self, values);
  TORCH_CHECK(values.scalar_type() == self.scalar_type(), "output values must be of scalar type ",
              self.scalar_type(), ", but got ", values.scalar_type());
  TORCH_CHECK(indices.scalar_type() == at::kLong, "output indices must be of scalar type Long");
  const at::DimVector shape = at::meta::get_reduction_shape(self, dim, keepdim);
  values.resize_(shape);
  indices.resize_(shape);
  if (self.dim() == 0) {
    values.copy_(self);
    indices.zero_();
    return {values, indices};
  }
  if (self.numel() == 0) return {values, indices};
  const Picked kth = pick(self, dim, [&](const Tensor& rows) { return rank_of_all(rows, k - 1); });
  return write(kth, shape, values, indices);
}

OCL_NATIVE_AS("median", median, median_of_all(self, false))

OCL_NATIVE_AS("nanmedian", nanmedian, median_of_all(self, true))

OCL_NATIVE_AS("median.dim_values", median_dim_out,
              median_out("median()", self, dim, keepdim, values, indices, false))

OCL_NATIVE_AS("nanmedian.dim_values", nanmedian_dim_out,
              median_out("nanmedian()", self, dim, keepdim, values, indices, true))

}  // namespace native
}  // namespace ocl
