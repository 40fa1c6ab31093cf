// Operators on sorted rows: searchsorted, bucketize, repeat_interleave, mode.
#include <ATen/WrapDimUtils.h>
#include <ATen/native/BucketizationUtils.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>

#include "backend/queue/fault.h"
#include "kernels/core/grids/grid.h"
#include "kernels/core/operators/check_range.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/sort/sort.h"
#include "native/sorted_rows.h"

namespace ocl {
namespace {

using at::Tensor;
using Side = std::optional<std::string_view>;

struct SortedRows {
  const char* kernel;
  ScalarType type;
  bool int32, right, sorter;

  KernelSource source(Device& device) const {
    Defines defines = compute_defines(compute_type(type));
    define_grid(defines, device);
    defines.set("IN", dtype_name(type)).set("INDEX", int32 ? "int" : "long");
    if (right) defines.set("RIGHT", 1);
    if (sorter) defines.set("SORTER", 1);
    return {"sorted_rows.cl", kernel, defines};
  }
};

// A tensor of the number on the device of `sorted`; in float64 only if the device has it.
Tensor number_to_search(const c10::Scalar& number, const Tensor& sorted) {
  if (!number.isFloatingPoint() || ocl_device(sorted).properties().has_fp64)
    return at::native::searchsorted_scalar_tensor(number, sorted.device());
  Tensor value = at::scalar_tensor(number, sorted.options().dtype(at::kFloat));
  value.unsafeGetTensorImpl()->set_wrapped_number(true);
  return value;
}

// All tensors are contiguous and of one type.
void search(const Tensor& sorted, const Tensor& sorter, const Tensor& values, const Tensor& out,
            bool right) {
  Device& device = ocl_device(sorted);
  const ScalarType type = sorted.scalar_type();
  check_device_has(device, type, "searchsorted");
  if (sorted.is_complex()) refuse_type(device, type, "searchsorted");
  const auto length = static_cast<uint64_t>(sorted.size(-1));
  const bool one_row = sorted.dim() == 1;
  const auto count = static_cast<uint64_t>(one_row ? values.numel() : values.size(-1));
  const uint64_t rows = static_cast<uint64_t>(values.numel()) / count;
  const UnitGrid grid = unit_grid(device, rows, count, 64);
  Arguments arguments(
      stream_of(sorted),
      find_kernel(device, SortedRows{"search_sorted", type, out.scalar_type() == at::kInt, right,
                                     sorter.defined()}));
  arguments.add(view(sorted));
  if (sorter.defined()) arguments.add(view(sorter));
  arguments.add(view(values)).add(view(out)).add(rows).add(count).add(length);
  arguments.add(one_row ? uint64_t{0} : length).add(grid.per_item);
  arguments.enqueue(grid.global, grid.local);
}

// The most frequent value of each row of a contiguous matrix, and its index.
std::pair<Tensor, Tensor> most_frequent(const Tensor& self) {
  Device& device = ocl_device(self);
  check_device_has(device, self.scalar_type(), "mode");
  const auto [sorted, order] = at::sort(self, /*stable=*/true, /*dim=*/-1, /*descending=*/false);
  const auto length = static_cast<uint64_t>(self.size(-1));
  const uint64_t rows = static_cast<uint64_t>(self.numel()) / length;
  const bool int32 = length <= INT32_MAX;
  const Tensor lengths =
      at::empty(self.sizes(), self.options().dtype(int32 ? at::kInt : at::kLong));
  static constexpr const char* kName = "run_lengths";
  const UnitGrid grid = unit_grid(device, rows, length, 4);
  const Kernel& kernel =
      find_kernel(device, SortedRows{kName, self.scalar_type(), int32, false, false});
  launch(stream_of(self), kernel, grid.global, grid.local, view(sorted), view(lengths), rows,
         length, grid.per_item);
  const Tensor best = at::argmax(lengths, 1, /*keepdim=*/true);  // the first of equal ones
  return {sorted.gather(1, best).squeeze(1), order.gather(1, best).squeeze(1)};
}

}  // namespace

namespace native {

OCL_NATIVE("searchsorted.Tensor_out", searchsorted_out);
Tensor& searchsorted_out(const Tensor& sorted_sequence, const Tensor& self, bool out_int32,
                         bool right, Side side, const std::optional<Tensor>& sorter_any,
                         Tensor& out) {
  const Tensor sorter = sorter_any.value_or(Tensor());
  at::native::searchsorted_pre_check(sorted_sequence, self, out, out_int32, right, side, sorter);
  at::native::resize_output(out, self.sizes());
  if (self.numel() == 0) return out;
  // Contiguous copies in one type; undefined if the argument needs no copy.
  Tensor values, sequence, order;
  at::native::searchsorted_maybe_trim_input_tensors(values, sequence, order, self, sorted_sequence,
                                                    sorter);
  const DenseOutput positions(out);
  search(sequence.defined() ? sequence : sorted_sequence, order.defined() ? order : sorter,
         values.defined() ? values : self, positions.tensor(), right || side == "right");
  positions.finish();
  return out;
}

OCL_NATIVE("searchsorted.Tensor", searchsorted);
Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& self, bool out_int32, bool right,
                    Side side, const std::optional<Tensor>& sorter) {
  Tensor out = at::empty({0}, sorted_sequence.options().dtype(out_int32 ? at::kInt : at::kLong),
                         at::MemoryFormat::Contiguous);
  return searchsorted_out(sorted_sequence, self, out_int32, right, side, sorter, out);
}

OCL_NATIVE("searchsorted.Scalar_out", searchsorted_scalar_out);
Tensor& searchsorted_scalar_out(const Tensor& sorted_sequence, const c10::Scalar& self,
                                bool out_int32, bool right, Side side,
                                const std::optional<Tensor>& sorter, Tensor& out) {
  const Tensor value = number_to_search(self, sorted_sequence);
  return searchsorted_out(sorted_sequence, value, out_int32, right, side, sorter, out);
}

OCL_NATIVE("searchsorted.Scalar", searchsorted_scalar);
Tensor searchsorted_scalar(const Tensor& sorted_sequence, const c10::Scalar& self, bool out_int32,
                           bool right, Side side, const std::optional<Tensor>& sorter) {
  const Tensor value = number_to_search(self, sorted_sequence);
  return native::searchsorted(sorted_sequence, value, out_int32, right, side, sorter);
}

namespace {

void check_boundaries(const Tensor& boundaries) {
  TORCH_CHECK(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim(",
              boundaries.dim(), ")");
}

}  // namespace

OCL_NATIVE("bucketize.Tensor_out", bucketize_out);
Tensor& bucketize_out(const Tensor& self, const Tensor& boundaries, bool out_int32, bool right,
                      Tensor& out) {
  check_boundaries(boundaries);
  return searchsorted_out(boundaries, self, out_int32, right, std::nullopt, std::nullopt, out);
}

OCL_NATIVE("bucketize.Tensor", bucketize);
Tensor bucketize(const Tensor& self, const Tensor& boundaries, bool out_int32, bool right) {
  check_boundaries(boundaries);
  return native::searchsorted(boundaries, self, out_int32, right, std::nullopt, std::nullopt);
}

OCL_NATIVE_AS("bucketize.Scalar", bucketize_scalar,
              native::bucketize(number_to_search(self, boundaries), boundaries, out_int32, right))

OCL_NATIVE("repeat_interleave.Tensor", repeat_interleave);
Tensor repeat_interleave(const Tensor& repeats, std::optional<int64_t> output_size) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  if (const ScalarType type = repeats.scalar_type(); type != at::kLong && type != at::kInt) {
    refuse_type(ocl_device(repeats), type, "repeat_interleave");
  }
  if (repeats.numel() == 0) return at::empty_like(repeats, at::MemoryFormat::Contiguous);
  const Tensor ends = repeats.cumsum(0);
  int64_t total = output_size.value_or(0);
  if (output_size) {
    static const int of_repeats =
        fault_site({"aten::repeat_interleave", FaultClass::kRuntime, "repeat", "numbers from"});
    static const int of_sum = fault_site(
        {"aten::repeat_interleave", FaultClass::kRuntime, "the sum of repeats", "output_size"});
    const auto expected = static_cast<double>(total);
    check_range(repeats.to(at::kLong), {0, 0x1p62, 0, of_repeats});
    check_range(ends.narrow(0, -1, 1), {expected, expected, total, of_sum});
  } else {
    total = ends[-1].item<int64_t>();
    TORCH_CHECK(repeats.ge(0).all().item<bool>(), "repeats can not be negative");
  }
  const Tensor places = at::arange(total, ends.options());
  return at::searchsorted(ends, places, /*out_int32=*/repeats.scalar_type() == at::kInt,
                          /*right=*/true);
}

OCL_NATIVE("mode.values", mode_out);
std::tuple<Tensor&, Tensor&> mode_out(const Tensor& self, int64_t dim_any, bool keepdim,
                                      Tensor& values, Tensor& indices) {
  TORCH_CHECK(values.scalar_type() == self.scalar_type(), "expected scalar type '",
              self.scalar_type(), "' but got '", values.scalar_type(), "' for values output");
  TORCH_CHECK(indices.scalar_type() == at::kLong, "expected scalar type Long but got '",
              indices.scalar_type(), "' for indices output");
  const int64_t dim = at::maybe_wrap_dim(dim_any, self.dim());
  if (self.dim() == 0) {
    values.resize_({}).copy_(self);
    indices.resize_({}).zero_();
    return {values, indices};
  }
  if (self.numel() == 0) at::native::zero_numel_check_dims(self, dim, "mode()");
  const at::DimVector shape = at::meta::get_reduction_shape(self, dim, keepdim);
  values.resize_(shape);
  indices.resize_(shape);
  if (values.numel() == 0) return {values, indices};
  const DenseOutput out(values), positions(indices);
  in_parts(rows_of(self, dim), [&](int64_t first, const Tensor& part) {
    const auto [most, places] = most_frequent(part);
    out.tensor().view({-1}).narrow(0, first, part.size(0)).copy_(most);
    positions.tensor().view({-1}).narrow(0, first, part.size(0)).copy_(places);
  });
  out.finish();
  positions.finish();
  return {values, indices};
}

OCL_NATIVE("mode", mode);
std::tuple<Tensor, Tensor> mode(const Tensor& self, int64_t dim, bool keepdim) {
  Tensor values = at::empty({0}, self.options()),
         indices = at::empty({0}, self.options().dtype(at::kLong));
  mode_out(self, dim, keepdim, values, indices);
  return {values, indices};
}

}  // namespace native
}  // namespace ocl
