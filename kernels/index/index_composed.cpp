// Operators made of other operators: masked_scatter, index_reduce, the indices of triangles, and
// shuffles of pixels and channels.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/native_channel_shuffle_native.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/pixel_shuffle_native.h>
#include <ATen/ops/pixel_unshuffle_native.h>
#include <ATen/ops/where.h>

#include "backend/queue/fault.h"
#include "kernels/core/operators/check_range.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "native/index_composed.h"

namespace ocl {
namespace {

using at::Tensor;

Tensor triangle_indices(int64_t row, int64_t col, std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout> layout, std::optional<at::Device> device,
                        c10::function_ref<Tensor(const Tensor&)> part) {
  at::native::check_args(row, col, layout);
  const Tensor all = at::ones(
      {row, col}, at::TensorOptions().dtype(at::kBool).device(device.value_or(at::kPrivateUse1)));
  const Tensor places = part(all).nonzero();
  const Tensor out =
      at::empty({2, places.size(0)}, places.options().dtype(dtype.value_or(at::kLong)));
  return out.copy_(places.t());
}

}  // namespace

namespace native {

OCL_NATIVE("masked_scatter_", masked_scatter_);
OCL_COMPLEX("masked_scatter_");
Tensor& masked_scatter_(Tensor& self, const Tensor& mask, const Tensor& source) {
  at::assert_no_internal_overlap(self);
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "masked_scatter_: expected self and source to have same dtypes but got ",
              self.scalar_type(), " and ", source.scalar_type());
  TORCH_CHECK(mask.scalar_type() == at::kBool,
              "masked_scatter_ only supports boolean masks, but got mask with dtype ",
              mask.scalar_type());
  const auto wide = at::expand_inplace(self, mask, "masked_scatter_");
  if (self.numel() == 0) return self;
  const bool narrow = self.numel() <= INT32_MAX;
  const Tensor places = wide->reshape({-1}).cumsum(0, narrow ? at::kInt : at::kLong);
  const auto wanted = places[-1].item<int64_t>();
  TORCH_CHECK(wanted <= source.numel(), "Number of elements of source < number of ones in mask");
  if (wanted == 0) return self;
  const Tensor values =
      source.reshape({-1}).index_select(0, places.sub_(1).clamp_min_(0)).view(self.sizes());
  Tensor result = values;
  return self.copy_(at::where_out(result, *wide, values, self));
}

OCL_STRUCTURED("index_reduce.out", index_reduce)
(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
 std::string_view reduce, bool include_self, const Tensor& out) {
  TORCH_WARN_ONCE("index_reduce() is in beta and the API may change at any time.");
  if (!out.is_same(self)) out.copy_(self);
  if (source.numel() == 0) return;
  const auto at_least_1d = [](const Tensor& t) { return t.dim() == 0 ? t.unsqueeze(0) : t; };
  const Tensor values = at_least_1d(source);
  at::DimVector shape(values.dim(), 1);
  shape[dim] = index.numel();
  Tensor target = at_least_1d(out);
  static const int site =
      fault_site({"aten::index_reduce", FaultClass::kIndex, "index", "dimension of size"});
  // scatter_reduce_ would raise an error of another class.
  check_range(index, {0, static_cast<double>(target.size(dim)) - 1, target.size(dim), site});
  target.scatter_reduce_(dim, index.to(at::kLong).reshape(shape).expand(values.sizes()), values,
                         reduce, include_self);
}

OCL_NATIVE("tril_indices", tril_indices);
Tensor tril_indices(int64_t row, int64_t col, int64_t offset, std::optional<at::ScalarType> dtype,
                    std::optional<at::Layout> layout, std::optional<at::Device> device,
                    std::optional<bool> /*pin_memory*/) {
  return triangle_indices(row, col, dtype, layout, device,
                          [&](const Tensor& all) { return all.tril(offset); });
}

OCL_NATIVE("triu_indices", triu_indices);
Tensor triu_indices(int64_t row, int64_t col, int64_t offset, std::optional<at::ScalarType> dtype,
                    std::optional<at::Layout> layout, std::optional<at::Device> device,
                    std::optional<bool> /*pin_memory*/) {
  return triangle_indices(row, col, dtype, layout, device,
                          [&](const Tensor& all) { return all.triu(offset); });
}

// PyTorch's kernels for the CPU keep the memory format; its compositions for other devices do not.
OCL_COMPLEX("channel_shuffle,native_channel_shuffle,pixel_shuffle,pixel_unshuffle");
OCL_NATIVE_AS(
    "pixel_shuffle", pixel_shuffle,
    at::native::math_pixel_shuffle(self, upscale_factor).contiguous(self.suggest_memory_format()))

OCL_NATIVE_AS("pixel_unshuffle", pixel_unshuffle,
              at::native::math_pixel_unshuffle(self, downscale_factor)
                  .contiguous(self.suggest_memory_format()))

OCL_SHARED("channel_shuffle");
OCL_NATIVE("native_channel_shuffle", native_channel_shuffle);
Tensor native_channel_shuffle(const Tensor& self, int64_t groups) {
  TORCH_CHECK(self.dim() > 2,
              "channel_shuffle expects input with > 2 dims, but got input with sizes ",
              self.sizes());
  TORCH_CHECK(groups > 0,
              "Number of groups to divide channels in must be positive. Value of groups:", groups);
  if (self.numel() == 0) return at::empty_strided(self.sizes(), self.strides(), self.options());
  const auto format = self.suggest_memory_format();
  return at::native::math_channel_shuffle(self.contiguous(format), groups).contiguous(format);
}

}  // namespace native
}  // namespace ocl
