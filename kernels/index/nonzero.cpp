// Positions of elements that are not zero, and selection by masks, which uses them. Only the device
// knows the number of results, so these operators wait for it.
#include <ATen/ExpandUtils.h>
#include <ATen/ceil_div.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index.h>
#include <ATen/ops/ne.h>

#include "backend/memory/transfer.h"
#include "kernels/core/grids/grid.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "native/nonzero.h"

namespace ocl {
namespace {

// The elements of a GPU's share. Larger for many elements, because one work-group adds up all
// counts.
constexpr size_t kFewest = 1024, kMost = 16 * kFewest, kShares = 4096;

struct Nonzero {
  const char* kernel;
  ScalarType type;
  int64_t ndim;

  KernelSource source(Device& device, size_t group) const {
    const bool cpu = device.family() == KernelFamily::kCpu;
    Defines defines;
    defines.set("IN", dtype_name(type)).set("NDIM", std::max<int64_t>(ndim, 1));
    if (!cpu) defines.set("GROUP", static_cast<int64_t>(group));
    return {cpu ? "nonzero_cpu.cl" : "nonzero_gpu.cl", kernel, defines};
  }
};

}  // namespace

namespace native {

OCL_NATIVE("nonzero.out", nonzero_out);
OCL_COMPLEX("nonzero.out");
Tensor& nonzero_out(const Tensor& self, Tensor& out) {
  static constexpr const char *kCount = "nonzero_count", *kScan = "nonzero_scan",
                              *kWrite = "nonzero_write";
  TORCH_CHECK(out.scalar_type() == ScalarType::Long,
              "Expected object of scalar type Long as out, but got scalar type ",
              out.scalar_type());
  const int64_t ndim = self.dim();
  const auto numel = static_cast<size_t>(self.numel());
  if (numel == 0) {
    if (at::native::resize_output(out, {0, ndim})) out.as_strided_({0, ndim}, {1, 0});
    return out;
  }
  Device& device = ocl_device(self);
  check_device_has(device, self.scalar_type(), "nonzero");
  const Tensor in = self.is_complex() ? self.contiguous().ne(0) : self.contiguous();
  const ScalarType type = in.scalar_type();
  const bool cpu = device.family() == KernelFamily::kCpu;
  const size_t share =
      cpu ? std::max<size_t>(64, at::ceil_div(numel, device.parameters().tasks))
          : std::clamp(at::round_up(at::ceil_div(numel, kShares), kFewest), kFewest, kMost);
  const size_t shares = at::ceil_div(numel, share);
  const Tensor counts =
      at::empty({static_cast<int64_t>(shares) + 1}, in.options().dtype(ScalarType::Long));
  Stream& stream = stream_of(in);
  const auto run = [&](const char* name, size_t count, const auto&... values) {
    const Kernel& kernel = find_kernel(device, Nonzero{name, type, ndim});
    const size_t group = cpu ? 1 : kernel.group;
    launch(stream, kernel, {count * group}, {group}, values...);
  };
  run(kCount, shares, view(in), view(counts), uint64_t{numel}, uint64_t{share});
  run(kScan, 1, view(counts), uint64_t{shares});
  int64_t total = 0;
  copy_to_host(stream, &total, resolve(counts.const_data_ptr<int64_t>() + shares), sizeof(total));
  // The result is stored column by column, as on CPU and CUDA.
  if (at::native::resize_output(out, {total, ndim})) {
    out.as_strided_({total, ndim}, {1, total});
  }
  if (out.numel() == 0) return out;
  const Tensor dense = out.t().is_contiguous() ? out : at::empty({ndim, total}, out.options()).t();
  const Kernel& write = find_kernel(device, Nonzero{kWrite, type, ndim});
  const size_t group = cpu ? 1 : write.group;
  Arguments arguments(stream, write);
  arguments.add(view(in)).add(view(counts)).add(view(dense));
  arguments.add(uint64_t{numel}).add(uint64_t{share}).add(total);
  arguments.add_bytes(in.sizes().data(), static_cast<size_t>(ndim) * sizeof(int64_t));
  arguments.enqueue({shares * group}, {group});
  if (!dense.is_same(out)) out.copy_(dense);
  return out;
}

OCL_NATIVE("nonzero", nonzero);
OCL_COMPLEX("nonzero.default");
Tensor nonzero(const Tensor& self) {
  Tensor out = at::empty({0}, self.options().dtype(ScalarType::Long));
  nonzero_out(self, out);
  return out;
}

OCL_NATIVE("masked_select.out", masked_select_out);
OCL_COMPLEX("masked_select.out");
Tensor& masked_select_out(const Tensor& self, const Tensor& mask, Tensor& out) {
  TORCH_CHECK(mask.scalar_type() == ScalarType::Bool,
              "masked_select: expected BoolTensor for mask");
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "masked_select(): self and result must have the same scalar type");
  // A tensor must have a dimension to be indexed.
  const Tensor values = self.dim() == 0 ? self.unsqueeze(0) : self;
  const Tensor chosen = mask.dim() == 0 ? mask.unsqueeze(0) : mask;
  const auto [wide_mask, wide_values] = at::expand_outplace(chosen, values);
  at::index_out(out, *wide_values, {*wide_mask});
  return out;
}

OCL_NATIVE("masked_select", masked_select);
OCL_COMPLEX("masked_select.default");
Tensor masked_select(const Tensor& self, const Tensor& mask) {
  Tensor out = at::empty({0}, self.options());
  masked_select_out(self, mask, out);
  return out;
}

}  // namespace native
}  // namespace ocl
