// The gradient of an embedding's weight; the embedding itself is an index_select.
#include <ATen/ceil_div.h>
#include <ATen/ops/zeros.h>

#include "kernels/core/grids/grid.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/index/index.h"
#include "native/embedding.h"

namespace ocl {
namespace {

struct EmbeddingGradient {
  const char* kernel;
  ScalarType type, index;
  bool scaled;

  KernelSource source(Device& device) const {
    const ScalarType compute = compute_type(type);
    Defines defines = compute_defines(compute);
    define_grid(defines, device);
    defines.set("IN", dtype_name(type)).set("INDEX", index == ScalarType::Int ? "int" : "long");
    if (scaled) defines.set("SCALED", 1);
    if (device.family() == KernelFamily::kCpu) {
      defines.set("WIDTH", static_cast<int64_t>(vector_lanes(device, compute)));
    }
    return {"embedding.cl", kernel, defines};
  }
};

// Sorts the indices and adds the rows of `grad` to the rows `index` of `out`. `counts` may be
// undefined.
void add_sorted(const at::Tensor& out, const at::Tensor& rows, const at::Tensor& index,
                const at::Tensor& counts, int64_t padding) {
  static const Indexing adding{.name = "embedding_add",
                               .fault_site = 0,
                               .wrap = false,
                               .combine = kAddElements,
                               .in_order = true,
                               .skips_outside = true};
  at::Tensor values = rows;
  if (counts.defined()) {
    const ScalarType compute = compute_type(rows.scalar_type());
    if (compute != rows.scalar_type()) {  // sums in 16 bits would round away small values
      const at::Tensor sums = at::zeros(out.sizes(), out.options().dtype(compute));
      add_sorted(sums, rows.to(compute), index, counts, padding);
      out.copy_(sums);
      return;
    }
    const at::Tensor scale =
        counts.index_select(0, index.clamp(0, out.size(0) - 1)).to(compute).reciprocal();
    values = rows.mul(scale.unsqueeze(1));
  }
  const at::Tensor places = index.masked_fill(index.eq(padding), -1).unsqueeze(1);
  at::TensorIterator iter =
      index_iterator(out.as_strided(rows.sizes(), {0, out.stride(1)}), values, places);
  index_put(iter, adding, {out.size(0)}, {out.stride(0) * out.element_size()});
}

}  // namespace

namespace native {

OCL_NATIVE("embedding_dense_backward", embedding_dense_backward);
Tensor embedding_dense_backward(const Tensor& grad_output, const Tensor& indices,
                                int64_t num_weights, int64_t padding_idx, bool scale_grad_by_freq) {
  const ScalarType type = grad_output.scalar_type(), index_type = indices.scalar_type();
  TORCH_CHECK(index_type == ScalarType::Long || index_type == ScalarType::Int,
              "embedding_backward: expected indices of type int64 or int32, but got ", index_type);
  Device& device = ocl_device(grad_output);
  check_device_has(device, type, "embedding_dense_backward");
  const int64_t width = grad_output.size(-1);
  const Tensor out = at::zeros({num_weights, width}, grad_output.options());
  const auto count = static_cast<size_t>(indices.numel());
  if (count == 0 || out.numel() == 0) return out;
  const Tensor grad = grad_output.contiguous(), index = indices.contiguous();
  Stream& stream = stream_of(out);
  static constexpr const char *kBackward = "embedding_backward", *kCount = "count_indices";

  Tensor counts = out;  // a placeholder, which the kernel reads only when it scales
  if (scale_grad_by_freq) {
    counts = at::zeros({num_weights}, index.options().dtype(ScalarType::Int));
    const bool cpu = device.family() == KernelFamily::kCpu;
    const size_t items = cpu ? device.parameters().tasks : size_t{4096};
    const size_t per_item = at::ceil_div(count, items);
    const Range local{.x = cpu ? size_t{1} : size_t{64}, .may_shrink = true};
    launch(stream, find_kernel(device, EmbeddingGradient{kCount, type, index_type, true}),
           {at::round_up(at::ceil_div(count, per_item), local.x)}, local, view(index), view(counts),
           uint64_t{count}, num_weights, uint64_t{per_item});
  }
  if (device.family() == KernelFamily::kGpu && count > kMostInOrder) {
    const auto rows = static_cast<int64_t>(count);
    add_sorted(out, grad.view({rows, width}), index.view({rows}),
               scale_grad_by_freq ? counts : Tensor(), padding_idx);
    return out;
  }
  UnitGrid grid = unit_grid(device, 1, static_cast<size_t>(width), count);
  if (device.family() == KernelFamily::kCpu) {
    // Each task has whole cache lines.
    grid.global.x = std::min(grid.global.x, static_cast<size_t>((width + 15) / 16));
  } else {
    grid.global.y = grid.local.y = 1;
  }
  launch(stream,
         find_kernel(device, EmbeddingGradient{kBackward, type, index_type, scale_grad_by_freq}),
         grid.global, grid.local, view(grad), view(index), view(out), view(counts), uint64_t{count},
         static_cast<uint64_t>(width), num_weights, padding_idx);
  return out;
}

}  // namespace native
}  // namespace ocl
