// Histograms: PyTorch's implementation with our kernels in its stubs; bincount.
#include <ATen/native/Histogram.h>
#include <ATen/ops/_histogramdd_bin_edges_native.h>
#include <ATen/ops/_histogramdd_from_bin_cts_native.h>
#include <ATen/ops/_histogramdd_from_bin_tensors_native.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/bincount_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/histc_native.h>
#include <ATen/ops/histogram_native.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/pointwise/expression.h"
#include "native/histogram.h"

namespace ocl {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// The bin equals the CPU's. a - b, its product with the number of bins, and c - b are each rounded
// once, in the CPU's order, and none of them can be contracted to an fma. QUOTIENT rounds their
// quotient to nearest on every device, even if the device's division does not (math.clh). For zeros
// in 10 bins of [-3, 3]: 3 * 10 and 6 are exact, and so is 30 / 6 = 5. A division that is off by a
// unit would give 4.9999995, and bin 4.
constexpr PointwiseOp kBin{"histogram_bin", "QUOTIENT((a - b) * C(s0), c - b)"};

// The bins of the elements x. Sets `inside` to false for elements that are in no bin.
Tensor bins_of(const Tensor& x, const Tensor& edges, bool by_formula, Tensor& inside) {
  const int64_t bins = edges.numel() - 1;
  const Tensor first = edges[0], last = edges[-1];
  inside = x.ge(first).logical_and_(x.le(last));
  Tensor bin;
  if (by_formula) {
    // Converts integers to int64, so that the product does not overflow.
    const bool integers = at::isIntegralType(x.scalar_type(), /*includeBool=*/true);
    const at::ScalarType type = integers ? at::kLong : compute_type(x.scalar_type());
    const Tensor place = at::empty(x.sizes(), x.options().dtype(type));
    evaluate(kBin, place, {x, first, last}, type, {bins});
    bin = at::where(inside, place, at::zeros({}, place.options())).to(at::kLong);
  } else {
    bin = at::searchsorted(edges.contiguous(), x.contiguous(), /*out_int32=*/false,
                           /*right=*/true)
              .sub_(1);
  }
  return bin.clamp_(0, bins - 1);
}

// The integer type that can count this many elements.
at::ScalarType type_of_counts(int64_t elements) {
  return elements <= INT32_MAX ? at::kInt : at::kLong;
}

// The points as a matrix; the last dimension has their coordinates.
Tensor points_of(const Tensor& self) { return self.reshape({-1, self.size(-1)}); }

void count(const Tensor& self_any, const OptionalTensor& weight, bool density, const Tensor& hist,
           at::TensorList edges, bool by_formula) {
  const Tensor self = points_of(self_any);
  const int64_t points = self.size(0);
  const bool weighted = weight && weight->defined();
  // Floats would stop counting at 2^24.
  const at::TensorOptions options =
      hist.options().dtype(weighted ? compute_type(hist.scalar_type()) : type_of_counts(points));
  Tensor bin = at::zeros({points}, options.dtype(at::kLong)),
         inside = at::ones({points}, options.dtype(at::kBool)), inside_here;
  for (size_t d = 0; d < edges.size(); ++d) {
    const Tensor here =
        bins_of(self.select(1, static_cast<int64_t>(d)), edges[d], by_formula, inside_here);
    bin.mul_(edges[d].numel() - 1).add_(here);
    inside.logical_and_(inside_here);
  }
  // One more bin counts the elements that are in no bin.
  const Tensor counts = at::zeros({hist.numel() + 1}, options);
  bin.masked_fill_(inside.logical_not(), hist.numel());
  const Tensor weights =
      weighted ? weight->reshape({-1}).to(counts.scalar_type()) : at::ones({points}, options);
  counts.index_add_(0, bin, weights);
  hist.copy_(counts.narrow(0, 0, hist.numel()).view(hist.sizes()));
  if (!density) return;
  hist.div_(hist.sum());
  for (size_t d = 0; d < edges.size(); ++d) {
    at::DimVector shape(edges.size(), 1);
    shape[d] = hist.size(static_cast<int64_t>(d));
    hist.div_(edges[d].diff().reshape(shape));
  }
}

void histogramdd(const Tensor& self, const OptionalTensor& weight, bool density, Tensor& hist,
                 const at::TensorList& edges) {
  count(self, weight, density, hist, edges, false);
}

void histogramdd_linear(const Tensor& self, const OptionalTensor& weight, bool density,
                        Tensor& hist, const at::TensorList& edges, bool local_search) {
  count(self, weight, density, hist, edges, !local_search);
}

void outer_edges(const Tensor& input, const int64_t dimensions, std::vector<double>& leftmost,
                 std::vector<double>& rightmost) {
  const auto [least, most] = at::aminmax(points_of(input), 0);
  const Tensor low = least.cpu().to(at::kDouble), high = most.cpu().to(at::kDouble);
  for (int64_t d = 0; d < dimensions; ++d) {
    leftmost[d] = low[d].item<double>();
    rightmost[d] = high[d].item<double>();
  }
}

}  // namespace

namespace native {

OCL_NATIVE_AS("histc", histc, at::native::histogram_histc(self, bins, min, max))

OCL_NATIVE_AS("histc.out", histc_out, at::native::histogram_histc_out(self, bins, min, max, out))

OCL_NATIVE_AS("histogram.bins_tensor", histogram_bins_tensor,
              at::native::histogram(self, bins, weight, density))

OCL_NATIVE_AS("histogram.bins_tensor_out", histogram_bins_tensor_out,
              at::native::histogram_out(self, bins, weight, density, hist, bin_edges))

OCL_NATIVE_AS("histogram.bin_ct", histogram_bin_ct,
              at::native::histogram(self, bins, range, weight, density))

OCL_NATIVE_AS("histogram.bin_ct_out", histogram_bin_ct_out,
              at::native::histogram_out(self, bins, range, weight, density, hist, bin_edges))

OCL_NATIVE_AS("_histogramdd_bin_edges", histogramdd_bin_edges,
              at::native::histogramdd_bin_edges(self, bins, range, weight, density))

OCL_NATIVE_AS("_histogramdd_from_bin_cts", histogramdd_from_bin_cts,
              at::native::_histogramdd(self, bins, range, weight, density))

OCL_NATIVE_AS("_histogramdd_from_bin_tensors", histogramdd_from_bin_tensors,
              at::native::_histogramdd(self, bins, weight, density))

OCL_NATIVE("bincount", bincount);
Tensor bincount(const Tensor& self, const OptionalTensor& weights, int64_t minlength) {
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  if (!at::isIntegralType(self.scalar_type(), /*includeBool=*/false)) {
    refuse_type(ocl_device(self), self.scalar_type(), "bincount");
  }
  if (self.dim() == 1 && self.numel() == 0) {
    return at::zeros({minlength}, self.options().dtype(at::kLong));
  }
  TORCH_CHECK(self.dim() == 1, "bincount only supports 1-d non-negative integral inputs.");
  const auto [least, most] = at::aminmax(self);
  TORCH_CHECK(least.item<int64_t>() >= 0,
              "bincount only supports 1-d non-negative integral inputs.");
  const bool weighted = weights && weights->defined();
  TORCH_CHECK(!weighted || (weights->dim() == 1 && weights->size(0) == self.size(0)),
              "weights should be 1-d and have the same length as input");
  const int64_t largest = most.item<int64_t>();
  TORCH_CHECK(largest < INT64_MAX, "bincount: the number ", largest, " needs too many bins");
  const int64_t bins = std::max(largest + 1, minlength);
  const Tensor bin = self.to(at::kLong);
  if (weighted) {
    const auto type = weights->scalar_type() == at::kFloat ? at::kFloat : at::kDouble;
    return at::zeros({bins}, self.options().dtype(type)).index_add_(0, bin, weights->to(type));
  }
  const at::TensorOptions options = self.options().dtype(type_of_counts(self.numel()));
  return at::zeros({bins}, options)
      .index_add_(0, bin, at::ones({self.numel()}, options))
      .to(at::kLong);
}

}  // namespace native
}  // namespace ocl

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(histogramdd_stub, &ocl::histogramdd)
REGISTER_PRIVATEUSE1_DISPATCH(histogramdd_linear_stub, &ocl::histogramdd_linear)
REGISTER_PRIVATEUSE1_DISPATCH(histogram_select_outer_bin_edges_stub, &ocl::outer_edges)

}  // namespace at::native
