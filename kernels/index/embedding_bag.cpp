// embedding_bag: sums, means or maxima of bags of an embedding's rows, and their gradients.
#include <ATen/TensorOperators.h>
#include <ATen/TensorUtils.h>
#include <ATen/ops/_embedding_bag_sparse_backward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/zeros.h>

#include "kernels/core/grids/grid.h"
#include "kernels/core/grids/stripes.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "native/embedding_bag.h"

namespace ocl {
namespace {

using at::Tensor;
using Bags = std::tuple<Tensor, Tensor, Tensor, Tensor>;

// PyTorch's numbers for the modes.
enum Mode : int64_t { kSum = 0, kMean = 1, kMaximum = 2 };

struct EmbeddingBag {
  const char* kernel;
  ScalarType type, index;
  int64_t mode;
  bool weighted, last_offset;

  KernelSource source(Device& device, size_t group) const {
    Defines defines = compute_defines(compute_type(type));
    define_grid(defines, device);
    define_stripes(defines, device, group);
    defines.set("IN", dtype_name(type)).set("INDEX", index == ScalarType::Int ? "int" : "long");
    defines.set(mode == kSum ? "SUM" : mode == kMean ? "MEAN" : "MAXIMUM", 1);
    if (weighted) defines.set("WEIGHTED", 1);
    if (last_offset) defines.set("LAST_OFFSET", 1);
    return {"embedding_bag.cl", kernel, defines};
  }
};

// The checks of PyTorch's implementation, without reading the offsets on the host.
void check(const Tensor& weight, const Tensor& indices, const Tensor& offsets, int64_t mode,
           const std::optional<Tensor>& weights) {
  static constexpr const char* kOp = "embedding_bag";
  for (const auto& [name, tensor] : {std::pair{"indices", indices}, {"offsets", offsets}}) {
    at::checkScalarTypes(kOp, at::TensorArg(tensor, name, 1), {at::kLong, at::kInt});
  }
  const at::TensorArg rows(weight, "weight", 1);
  at::checkScalarTypes(kOp, rows, {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble});
  TORCH_CHECK(mode == kSum || mode == kMean || mode == kMaximum,
              "`mode` must be sum, mean, or max.");
  if (!weights || !weights->defined()) return;
  TORCH_CHECK(mode == kSum, "embedding_bag: per_sample_weights only supported with mode='sum'");
  at::checkSameType(kOp, rows, at::TensorArg(*weights, "per_sample_weights", 1));
  TORCH_CHECK(weights->dim() == 1 && weights->numel() == indices.numel(),
              "embedding_bag: per_sample_weights of shape ", weights->sizes(),
              " for indices of shape ", indices.sizes());
}

// Converts indices and offsets to their common type.
std::pair<Tensor, Tensor> promoted(const Tensor& indices, const Tensor& offsets) {
  const auto type = c10::promoteTypes(indices.scalar_type(), offsets.scalar_type());
  return {indices.to(type).contiguous(), offsets.to(type).contiguous()};
}

void check_dimensions(const Tensor& weight, const Tensor& indices, const Tensor& offsets) {
  TORCH_CHECK(indices.dim() == 1 || indices.dim() == 2,
              "input has to be a 1D or 2D Tensor, but got Tensor of dimension ", indices.dim());
  TORCH_CHECK(indices.dim() == 2 || offsets.dim() == 1,
              "offsets has to be a 1D Tensor, but got Tensor of dimension ", offsets.dim());
  TORCH_CHECK(weight.dim() == 2, "weight has to be a 2D Tensor, but got Tensor of dimension ",
              weight.dim());
  TORCH_CHECK(indices.dim() == 1 && offsets.dim() == 1,
              "embedding_bag: indices and offsets have to be 1D Tensors here, but got ",
              indices.dim(), " and ", offsets.dim(), " dimensions");
}

Bags forward(const Tensor& weight, const Tensor& indices, const Tensor& offsets, int64_t mode,
             const std::optional<Tensor>& per_sample_weights, bool include_last_offset,
             int64_t padding) {
  check_dimensions(weight, indices, offsets);
  const auto [index, starts] = promoted(indices, offsets);
  check(weight, index, starts, mode, per_sample_weights);
  Device& device = ocl_device(weight);
  check_device_has(device, weight.scalar_type(), "embedding_bag");
  const Tensor rows = weight.contiguous(), weights = dense(per_sample_weights);
  const int64_t count = starts.size(0) - (include_last_offset ? 1 : 0);
  TORCH_CHECK(count >= 0, "include_last_offset: number of offset should be at least 1");
  const int64_t width = rows.size(1);
  const Tensor out = at::zeros({count, width}, weight.options());
  const Tensor sizes = at::zeros({count}, index.options());
  const Tensor positions = at::empty({mode == kMaximum ? count : 0, width}, index.options());
  // Indices after the last offset get bag `count`, which does not exist.
  const Tensor bags = at::searchsorted(starts, at::arange(index.size(0), starts.options()),
                                       /*out_int32=*/false, /*right=*/true)
                          .sub_(1)
                          .to(index.scalar_type());
  if (count == 0 || width == 0) return {out, bags, sizes, positions};

  static const int site = fault_site({"embedding_bag", FaultClass::kRuntime,
                                      "Expected idx >= 0 && idx < num_embeddings but found idx to "
                                      "be",
                                      ""}),
                   order = fault_site({"embedding_bag", FaultClass::kRuntime, "offset",
                                       "offsets that begin at 0, ascend and end at most at"});
  static constexpr const char *kEach = "embedding_bag", *kLong = "embedding_bag_long";
  const auto find_for = [&](const char* name) -> const Kernel& {
    return find_kernel(device, EmbeddingBag{name, weight.scalar_type(), index.scalar_type(), mode,
                                            weights.defined(), include_last_offset});
  };
  const auto run = [&](const Kernel& kernel, const Range& global, const Range& local, auto number) {
    launch(stream_of(out), kernel, global, local, view(rows), view(index), view(starts),
           view(weights.defined() ? weights : rows), view(out), view(sizes),
           view(mode == kMaximum ? positions : sizes), static_cast<uint64_t>(count),
           static_cast<uint64_t>(width), number, static_cast<uint64_t>(index.size(0)), rows.size(0),
           padding, order, FaultArgument{site});
  };
  const size_t mean_size = index.size(0) / count + 1;
  const UnitGrid grid = unit_grid(device, count, width, 2 * mean_size);
  run(find_for(kEach), grid.global, grid.local, grid.per_item);
  if (may_be_long(device, static_cast<size_t>(index.size(0)))) {
    const Kernel& kernel = find_for(kLong);
    const StripeGrid stripes =
        stripe_grid(kernel, static_cast<size_t>(count), static_cast<size_t>(width));
    run(kernel, stripes.global, stripes.local, stripes.share);
  }
  return {out, bags, sizes, positions};
}

// For each index, the row of its bag; zeros if the index is in no bag.
Tensor rows_of_bags(const Tensor& of_bags, const Tensor& offset2bag) {
  const int64_t count = of_bags.size(0);
  if (count == 0) return at::zeros({offset2bag.size(0), of_bags.size(1)}, of_bags.options());
  return of_bags.index_select(0, offset2bag.clamp_max(count - 1))
      .masked_fill_(offset2bag.ge(count).unsqueeze(1), 0);
}

}  // namespace

namespace native {

OCL_NATIVE_AS("_embedding_bag", embedding_bag,
              forward(weight, indices, offsets, mode, per_sample_weights, include_last_offset,
                      padding_idx))

OCL_NATIVE_AS("_embedding_bag_forward_only", embedding_bag_forward_only,
              forward(weight, indices, offsets, mode, per_sample_weights, include_last_offset,
                      padding_idx))

// Each index adds its bag's gradient to its row, as in an embedding. For maxima, each column has
// its own index.
OCL_NATIVE("_embedding_bag_dense_backward", embedding_bag_dense_backward);
Tensor embedding_bag_dense_backward(const Tensor& grad, const Tensor& indices,
                                    const Tensor& offset2bag, const Tensor& bag_size,
                                    const Tensor& maximum_indices, int64_t num_weights,
                                    bool scale_grad_by_freq, int64_t mode,
                                    const std::optional<Tensor>& per_sample_weights,
                                    int64_t padding_idx) {
  if (mode == kMaximum) {
    const Tensor result = at::zeros({num_weights, grad.size(1)}, grad.options());
    const Tensor given = grad.masked_fill(maximum_indices.lt(0), 0);
    return result.scatter_add_(0, maximum_indices.clamp_min(0).to(ScalarType::Long), given);
  }
  Tensor given = grad;
  if (mode == kMean) given = grad / bag_size.clamp_min(1).to(grad.scalar_type()).unsqueeze(1);
  Tensor rows = rows_of_bags(given, offset2bag);
  if (per_sample_weights && per_sample_weights->defined()) {
    rows = rows * per_sample_weights->unsqueeze(1);
  }
  return at::embedding_dense_backward(rows, indices, num_weights, padding_idx, scale_grad_by_freq);
}

OCL_NATIVE("_embedding_bag_per_sample_weights_backward", embedding_bag_per_sample_weights_backward);
Tensor embedding_bag_per_sample_weights_backward(const Tensor& grad, const Tensor& weight,
                                                 const Tensor& indices_any, const Tensor& offsets,
                                                 const Tensor& offset2bag, int64_t mode,
                                                 int64_t padding_idx) {
  TORCH_CHECK(mode == kSum, "embedding_bag_backward: per_sample_weights only supported for ",
              "mode='sum'");
  const Tensor indices = promoted(indices_any, offsets).first;
  const Tensor products = rows_of_bags(grad, offset2bag) * weight.index_select(0, indices);
  return products.sum(1).masked_fill_(indices.eq(padding_idx), 0);
}

OCL_SHARED("_embedding_bag_backward");

}  // namespace native
}  // namespace ocl
