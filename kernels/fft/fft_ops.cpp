// The operators that torch.fft, stft and istft call.
#include <ATen/Context.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/SpectralOpsUtils.h>

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/fft/fft.h"
#include "native/fft_ops.h"

namespace ocl {
namespace {

using at::Tensor;

double scale_of(int64_t normalization, at::IntArrayRef sizes, at::IntArrayRef dims) {
  double count = 1;
  for (const int64_t dim : dims) count *= static_cast<double>(sizes[dim]);
  switch (static_cast<at::native::fft_norm_mode>(normalization)) {
    case at::native::fft_norm_mode::by_n:
      return 1 / count;
    case at::native::fft_norm_mode::by_root_n:
      return 1 / std::sqrt(count);
    default:
      return 1;
  }
}

at::DimVector wrapped(const Tensor& self, at::IntArrayRef dims) {
  at::DimVector result(dims);
  at::maybe_wrap_dims(result, self.dim());
  return result;
}

void sort_by_stride(const Tensor& self, int64_t* begin, int64_t* end) {
  std::stable_sort(begin, end,
                   [&](int64_t a, int64_t b) { return self.stride(a) > self.stride(b); });
}

// The order of a result's dimensions in memory: first the dimensions that are not transformed, then
// the others, each by decreasing stride. With `real`, the last transformed dimension stays last.
// PyTorch's meta functions promise this order, which is MKL's, to the compiler.
at::DimVector order_of(const Tensor& self, at::IntArrayRef dims, bool real) {
  at::DimVector order;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) order.push_back(d);
  }
  const auto staying = order.size();
  order.append(dims.begin(), dims.end());
  sort_by_stride(self, order.begin(), order.begin() + staying);
  sort_by_stride(self, order.begin() + staying, order.end() - (real ? 1 : 0));
  return order;
}

Tensor in_place_of(const Tensor& result, at::IntArrayRef order) {
  std::vector<int64_t> inverse(order.size());  // GCC 12 warns of a DimVector
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
  const Tensor permuted = result.permute(inverse);
  return at::hasMKL() ? permuted : permuted.contiguous();
}

// Transforms the `count` dimensions before `end`, and applies the scale once.
Tensor along(Tensor x, int64_t end, size_t count, bool forward, double scale) {
  for (size_t i = 1; i <= count; ++i) {
    x = fft_along(x, end - static_cast<int64_t>(i), forward, scale);
    scale = 1;
  }
  return x;
}

void check(const Tensor& self, bool complex, const char* op) {
  TORCH_CHECK(self.is_complex() == complex, op, ": expected a ", complex ? "complex" : "real",
              " tensor, got ", self.scalar_type());
  check_floating(ocl_device(self), self.scalar_type(), op);
  check_device_has(ocl_device(self), self.scalar_type(), op);
  TORCH_CHECK_NOT_IMPLEMENTED(
      self.element_size() >= 4 && compute_type(self.scalar_type()) == self.scalar_type(), op,
      ": unsupported dtype ", self.scalar_type());
}

Tensor& write(const Tensor& result, Tensor& out) {
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

}  // namespace

namespace native {

OCL_NATIVE("_fft_c2c", fft_c2c);
OCL_COMPLEX("_fft_c2c.default");
Tensor fft_c2c(const Tensor& self, IntArrayRef dim, int64_t normalization, bool forward) {
  check(self, true, "_fft_c2c");
  const at::DimVector dims = wrapped(self, dim);
  if (dims.empty() || self.numel() == 0) return self.clone(at::MemoryFormat::Contiguous);
  const double scale = scale_of(normalization, self.sizes(), dims);
  const at::DimVector order = order_of(self, dims, /*real=*/false);
  const Tensor in = self.permute(order).contiguous();
  const Tensor result = along(in, self.dim(), dims.size(), forward, scale);
  return in_place_of(result.is_same(in) ? in.clone() : result, order);
}

OCL_NATIVE_AS("_fft_c2c.out", fft_c2c_out, write(fft_c2c(self, dim, normalization, forward), out))
OCL_COMPLEX("_fft_c2c.out");

OCL_NATIVE("_fft_r2c", fft_r2c);
Tensor fft_r2c(const Tensor& self, IntArrayRef dim, int64_t normalization, bool onesided) {
  check(self, false, "_fft_r2c");
  const at::DimVector dims = wrapped(self, dim);
  TORCH_CHECK(!dims.empty(), "_fft_r2c: at least one dimension is needed");
  at::DimVector sizes(self.sizes());
  if (onesided) sizes[dims.back()] = sizes[dims.back()] / 2 + 1;
  if (self.numel() == 0) {
    return at::empty(sizes, self.options().dtype(c10::toComplexType(self.scalar_type())));
  }
  const double scale = scale_of(normalization, self.sizes(), dims);
  const at::DimVector order = order_of(self, dims, /*real=*/true);
  const Tensor rows = fft_of_real_rows(self.permute(order), onesided, scale);
  return in_place_of(along(rows, self.dim() - 1, dims.size() - 1, true, 1), order);
}

OCL_NATIVE_AS("_fft_r2c.out", fft_r2c_out, write(fft_r2c(self, dim, normalization, onesided), out))
OCL_COMPLEX("_fft_r2c.out");

OCL_NATIVE("_fft_c2r", fft_c2r);
OCL_COMPLEX("_fft_c2r.default");
Tensor fft_c2r(const Tensor& self, IntArrayRef dim, int64_t normalization, int64_t last_dim_size) {
  check(self, true, "_fft_c2r");
  at::DimVector dims = wrapped(self, dim);
  TORCH_CHECK(!dims.empty(), "_fft_c2r: at least one dimension is needed");
  const int64_t last = dims.back();
  at::DimVector sizes(self.sizes());
  sizes[last] = last_dim_size;
  if (self.numel() == 0) {
    return at::empty(sizes, self.options().dtype(c10::toRealValueType(self.scalar_type())));
  }
  TORCH_CHECK(last_dim_size > 0 && self.size(last) == last_dim_size / 2 + 1, "_fft_c2r: dimension ",
              last, " of the input has size ", self.size(last), ", but ", last_dim_size / 2 + 1,
              " belong to a result of ", last_dim_size);
  const double scale = scale_of(normalization, sizes, dims);
  dims.pop_back();
  Tensor in = self;
  if (!dims.empty()) {
    const at::DimVector order = order_of(self, dims, /*real=*/false);
    const Tensor others = self.permute(order).contiguous();
    in = in_place_of(along(others, self.dim(), dims.size(), false, 1), order);
  }
  const at::DimVector rows = order_of(in, {last}, /*real=*/true);
  return in_place_of(fft_to_real_rows(in.permute(rows).contiguous(), last_dim_size, scale), rows);
}

OCL_NATIVE_AS("_fft_c2r.out", fft_c2r_out,
              write(fft_c2r(self, dim, normalization, last_dim_size), out))
OCL_COMPLEX("_fft_c2r.out");

}  // namespace native
}  // namespace ocl
