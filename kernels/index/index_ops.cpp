// Operators that select elements by index tensors.
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/IndexKernel.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/native/ReductionType.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorAdvancedIndexing.h>
#include <ATen/native/TensorAdvancedIndexingUtils.h>
#include <ATen/ops/_index_put_impl_native.h>
#include <ATen/ops/empty.h>

#include "backend/queue/fault.h"
#include "kernels/core/operators/check_range.h"
#include "kernels/core/operators/registration.h"
#include "kernels/index/index.h"
#include "native/index_ops.h"

namespace ocl {
namespace {

using at::IntArrayRef;
using at::Tensor;

constexpr const char* kAdd = kAddElements;

// The fault site of an operator, with the class of the exception that the CPU raises.
int site_of(const char* op, FaultClass error) {
  return fault_site({op, error, "index", "dimension of size"});
}

// ---- index and index_put_: PyTorch prepares the iterators

// Calls without an index are an error on the CPU, too.
void check_any(bool any) { TORCH_CHECK(any, "index and index_put_ need at least one index"); }

void index(at::TensorIteratorBase& iter, IntArrayRef sizes, IntArrayRef strides) {
  static const Indexing indexing{"index", site_of("aten::index", FaultClass::kIndex), true};
  check_any(!sizes.empty());
  index_get(iter, indexing, sizes, strides);
}

void index_put_elements(at::TensorIterator& iter, IntArrayRef sizes, IntArrayRef strides,
                        bool accumulate) {
  static const int site = site_of("aten::index_put_", FaultClass::kIndex);
  static const Indexing plain{"index", site, true}, adding{"index_add", site, true, kAdd};
  check_any(!sizes.empty());
  index_put(iter, accumulate ? adding : plain, sizes, strides);
}

std::vector<Tensor> broadcast_together(const std::vector<Tensor>& indices) {
  try {
    return at::expand_outplace(indices);
  } catch (const c10::Error&) {
    TORCH_CHECK_INDEX(
        false, "shape mismatch: indexing tensors could not be broadcast together with shapes ",
        at::native::shapes_as_str(indices));
  }
}

// For devices other than the CPU, PyTorch leaves accumulation to the backend; CUDA sorts the
// indices.
void index_put_accumulating(Tensor& self_any, const c10::List<std::optional<Tensor>>& list,
                            const Tensor& value, bool accumulate, bool /*unsafe*/) {
  at::native::checkIndexTensorTypes(list, /*allow_int=*/true);
  Tensor self = self_any;
  std::vector<Tensor> indices =
      broadcast_together(at::native::expandTensors(self, list, /*ensure_same_device=*/true));
  const auto defined = [](const Tensor& index) { return index.defined(); };
  check_any(std::any_of(indices.begin(), indices.end(), defined));
  TORCH_CHECK_INDEX(static_cast<int64_t>(indices.size()) <= self.dim(),
                    "too many indices for tensor of dimension ", self.dim(), " (got ",
                    indices.size(), ")");
  indices.resize(self.dim());
  if (!at::native::hasContiguousSubspace(indices)) {
    std::tie(self, indices) = at::native::transposeToFront(self, indices);
  }
  // The indexed dimensions are adjacent now. In the result's shape the indices' shape replaces
  // them.
  const auto first = std::find_if(indices.begin(), indices.end(), defined) - indices.begin();
  const auto count = std::count_if(indices.begin(), indices.end(), defined);
  const IntArrayRef place = indices[first].sizes(), all = self.sizes(), steps = self.strides();
  at::DimVector shape(all.slice(0, first)), strides(steps.slice(0, first)), sizes_indexed,
      strides_indexed;
  shape.append(place.begin(), place.end());
  strides.append(place.size(), 0);
  shape.append(all.begin() + first + count, all.end());
  strides.append(steps.begin() + first + count, steps.end());
  TORCH_CHECK(at::is_expandable_to(value.sizes(), shape), "shape mismatch: value tensor of shape ",
              value.sizes(), " cannot be broadcast to indexing result of shape ", shape);
  TORCH_CHECK(value.scalar_type() == self.scalar_type(),
              "Index put requires the source and destination dtypes match, got ",
              self.scalar_type(), " for the destination and ", value.scalar_type(),
              " for the source.");
  if (c10::multiply_integers(shape) == 0) return;
  for (auto k = first; k < first + count; ++k) {
    TORCH_CHECK_INDEX(all[k] > 0, "index is out of bounds for dimension with size 0");
  }
  const Tensor still = self.as_strided(shape, strides);
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).check_all_same_dtype(false).resize_outputs(false);
  config.add_output(still).add_owned_const_input(value);
  for (auto k = first; k < first + count; ++k) {
    sizes_indexed.push_back(all[k]);
    strides_indexed.push_back(steps[k] * self.element_size());
    at::DimVector broadcast(place);
    broadcast.append(all.size() - first - count, 1);
    config.add_owned_const_input(indices[k].reshape(broadcast));
  }
  at::TensorIterator iter = config.build();
  index_put_elements(iter, sizes_indexed, strides_indexed, accumulate);
}

void index_fill(at::TensorIterator& iter, int64_t /*dim*/, int64_t size, int64_t stride,
                const c10::Scalar& value) {
  static const Indexing fill{"index_fill", site_of("aten::index_fill_", FaultClass::kIndex), true};
  if (iter.numel() == 0) return check_fits(value, iter.dtype(0));
  index_put(iter, fill, {size}, {stride * iter.element_size(0)}, {-1, 1}, value);
}

void index_copy(at::TensorIterator& iter, int64_t /*dim*/, int64_t size, int64_t stride) {
  static const Indexing copy{"index_copy", site_of("aten::index_copy_", FaultClass::kIndex), false};
  index_put(iter, copy, {size}, {stride * iter.element_size(0)}, {2, 1});
}

void take(at::TensorIterator& iter, const at::TensorBase& input) {
  static const Indexing taking{"take", site_of("aten::take", FaultClass::kIndex), true};
  const Tensor& out = iter.tensor(0);
  const Tensor dense = Tensor(input).contiguous();
  const Tensor still = dense.as_strided(out.sizes(), std::vector<int64_t>(out.dim(), 0));
  at::TensorIterator elements = index_iterator(out, still, iter.tensor(1));
  index_get(elements, taking, {dense.numel()}, {dense.element_size()});
}

void put(at::TensorIterator& iter, const at::TensorBase& self_base, bool accumulate) {
  static const int site = site_of("aten::put_", FaultClass::kIndex);
  static const Indexing plain{"put", site, true}, adding{"put_add", site, true, kAdd};
  const Tensor self(self_base), dense = self.contiguous();
  const Tensor &source = iter.tensor(0), &index = iter.tensor(1);
  const Tensor still = dense.as_strided(index.sizes(), std::vector<int64_t>(index.dim(), 0));
  at::TensorIterator elements = index_iterator(still, source, index);
  index_put(elements, accumulate ? adding : plain, {dense.numel()}, {dense.element_size()});
  if (!dense.is_same(self)) self.copy_(dense);
}

// ---- gather, scatter and other operators with an index per element or per slice of a dimension

Tensor at_least_1d(const Tensor& tensor) {
  return tensor.dim() == 0 ? tensor.unsqueeze(0) : tensor;
}

// The part of `tensor` with these sizes, and with stride 0 along `dim` if that is not -1.
Tensor walk(const Tensor& tensor, IntArrayRef sizes, int64_t dim) {
  std::vector<int64_t> strides = tensor.strides().vec();
  if (dim >= 0) strides[dim] = 0;
  return tensor.as_strided(sizes, strides);
}

void gather(const Tensor& result_any, const Tensor& self_any, int64_t dim,
            const Tensor& index_any) {
  static const Indexing gathering{"gather", site_of("aten::gather", FaultClass::kRuntime), false};
  const Tensor result = at_least_1d(result_any), self = at_least_1d(self_any),
               index = at_least_1d(index_any);
  at::TensorIterator iter = index_iterator(result, walk(self, index.sizes(), dim), index);
  index_get(iter, gathering, {self.size(dim)}, {self.stride(dim) * self.element_size()});
}

int scatter_site() {
  static const int site = site_of("aten::scatter", FaultClass::kRuntime);
  return site;
}
int scatter_add_site() {
  static const int site = site_of("aten::scatter_add", FaultClass::kRuntime);
  return site;
}
int scatter_reduce_site() {
  static const int site = site_of("aten::scatter_reduce", FaultClass::kRuntime);
  return site;
}

void scatter_by(int site, const char* combine, const Tensor& self_any, int64_t dim,
                const Tensor& index_any, const Tensor& source_any, const c10::Scalar& number = 0) {
  const Indexing scattering{combine ? "scatter_reduce" : "scatter", site, false, combine};
  const Tensor self = at_least_1d(self_any), index = at_least_1d(index_any);
  const bool fill = !source_any.defined();
  const Tensor source = fill ? source_any : walk(at_least_1d(source_any), index.sizes(), -1);
  at::TensorIterator iter = index_iterator(walk(self, index.sizes(), dim), source, index);
  index_put(iter, scattering, {self.size(dim)}, {self.stride(dim) * self.element_size()},
            fill ? IndexOperands{-1, 1} : IndexOperands{1, 2}, number);
}

const char* expression_of(at::native::ReductionType reduction, bool complex) {
  switch (reduction) {
    case at::native::ReductionType::MAX:
      return kGreaterElements;
    case at::native::ReductionType::MIN:
      return kLesserElements;
    case at::native::ReductionType::PROD:
      return complex ? "c_mul(x, y)" : "x * y";
    default:
      return kAdd;  // for a mean, PyTorch divides the sum
  }
}

void scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  scatter_by(scatter_site(), nullptr, self, dim, index, source);
}
void scatter_fill(const Tensor& self, int64_t dim, const Tensor& index, const c10::Scalar& value) {
  scatter_by(scatter_site(), nullptr, self, dim, index, {}, value);
}
void scatter_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  scatter_by(scatter_add_site(), kAdd, self, dim, index, source);
}
void scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                    const at::native::ReductionType& reduction) {
  scatter_by(scatter_reduce_site(), expression_of(reduction, self.is_complex()), self, dim, index,
             source);
}
void scatter_reduce_number(const Tensor& self, int64_t dim, const Tensor& index,
                           const c10::Scalar& value, const at::native::ReductionType& reduction) {
  scatter_by(scatter_site(), expression_of(reduction, self.is_complex()), self, dim, index, {},
             value);
}

// A view of one index per slice that broadcasts over the other dimensions.
Tensor index_along(const Tensor& index, int64_t dim, int64_t ndim) {
  std::vector<int64_t> sizes(ndim, 1), strides(ndim, 0);
  sizes[dim] = index.numel();
  strides[dim] = index.dim() > 0 ? index.stride(0) : 1;
  return index.as_strided(sizes, strides);
}

}  // namespace

namespace native {

namespace {

// Indices are checked even if there is nothing to read or write.
void refuse_outside(const Tensor& index, int64_t size, const Indexing& indexing) {
  if (index.numel() == 0) return;
  check_range(index, {0, static_cast<double>(size) - 1, size, indexing.fault_site});
}

Tensor& select_slices(const Indexing& selecting, const Tensor& self_any, int64_t dim,
                      const Tensor& index, Tensor& out) {
  dim = at::maybe_wrap_dim(dim, self_any.dim());
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
  TORCH_CHECK(index.scalar_type() == ScalarType::Long || index.scalar_type() == ScalarType::Int,
              "index_select(): Expected dtype int32 or int64 for index, but got ",
              index.scalar_type());
  TORCH_CHECK(self_any.scalar_type() == out.scalar_type(),
              "index_select(): self and result must have the same scalar type");
  TORCH_CHECK(self_any.dim() > 0 || index.numel() == 1,
              "index_select(): a tensor without dimensions has one element, but index has ",
              index.numel());
  std::vector<int64_t> sizes = self_any.sizes().vec();
  if (self_any.dim() > 0) sizes[dim] = index.numel();
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self_any);
  at::assert_no_overlap(out, index);
  at::native::resize_output(out, sizes);
  const Tensor self = at_least_1d(self_any), result = at_least_1d(out);
  if (out.numel() == 0) {
    refuse_outside(index, self.size(dim), selecting);
    return out;
  }
  TORCH_CHECK_INDEX(self.dim() > 1 || self.size(dim) > 0, "index out of range in self");
  TORCH_CHECK(self.size(dim) > 0, "index_select(): self indexing axis dim should be positive");
  at::TensorIterator iter = index_iterator(result, walk(self, result.sizes(), dim),
                                           index_along(index, dim, result.dim()));
  index_get(iter, selecting, {self.size(dim)}, {self.stride(dim) * self.element_size()});
  return out;
}

}  // namespace

OCL_NATIVE("index_select.out", index_select_out);
Tensor& index_select_out(const Tensor& self, int64_t dim, const Tensor& index, Tensor& out) {
  static const Indexing selecting{"index_select", site_of("aten::index_select", FaultClass::kIndex),
                                  false};
  return select_slices(selecting, self, dim, index, out);
}

OCL_NATIVE("index_select", index_select);
Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index) {
  Tensor out = at::empty({0}, self.options());
  index_select_out(self, dim, index, out);
  return out;
}

// PyTorch's implementation calls index_select, whose name would then be in the error.
OCL_NATIVE("embedding", embedding);
Tensor embedding(const Tensor& weight, const Tensor& indices, int64_t /*padding_idx*/,
                 bool /*scale_grad_by_freq*/, bool /*sparse*/) {
  static const Indexing looking_up{"index_select", site_of("aten::embedding", FaultClass::kIndex),
                                   false};
  TORCH_CHECK(weight.dim() == 2, "'weight' must be 2-D");
  const ScalarType type = indices.scalar_type();
  TORCH_CHECK(type == ScalarType::Long || type == ScalarType::Int,
              "embedding: Expected dtype int32 or int64 for indices, but got ", type);
  std::vector<int64_t> sizes = indices.sizes().vec();
  sizes.push_back(weight.size(1));
  Tensor out = at::empty({0}, weight.options());
  return select_slices(looking_up, weight, 0, indices.reshape(-1), out).view(sizes);
}

// index_put_ with a mask and one number: a fill, without a search for positions. PyTorch does this
// only for a number on the CPU, because it reads it; our kernel reads the number on the device.
std::optional<Tensor> mask_to_fill(const Tensor& self,
                                   const c10::List<std::optional<Tensor>>& indices) {
  static const Tensor number = at::empty({}, at::kFloat);
  c10::List<std::optional<Tensor>> masks;
  bool any = false;
  for (const std::optional<Tensor>& index : indices) {
    const bool here = index && index->defined();
    if (here && index->scalar_type() != ScalarType::Bool &&
        index->scalar_type() != ScalarType::Byte) {
      return {};
    }
    if (here && !index->is_cpu() && index->device() != self.device()) return {};
    any |= here;
    masks.push_back(here ? index->to(self.device()) : index);
  }
  if (!any) return {};
  auto [fills, mask] = at::native::canDispatchToMaskedFill(self, masks, number);
  return fills ? std::optional<Tensor>(mask) : std::nullopt;
}

OCL_NATIVE("_index_put_impl_", index_put_impl_);
Tensor& index_put_impl_(Tensor& self, const c10::List<std::optional<Tensor>>& indices,
                        const Tensor& values, bool accumulate, bool unsafe) {
  const bool fits = static_cast<int64_t>(indices.size()) <= self.dim();
  if (!accumulate && values.numel() == 1 && fits) {
    if (const std::optional<Tensor> mask = mask_to_fill(self, indices)) {
      return self.masked_fill_(*mask, values.reshape({}));
    }
  }
  return at::native::_index_put_impl_(self, indices, values, accumulate, unsafe);
}

OCL_STRUCTURED("index_add.out", index_add)
(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
 const at::Scalar& alpha, const Tensor& result_any) {
  static const Indexing adding{"index_add", site_of("aten::index_add_", FaultClass::kIndex), false,
                               kAdd};
  if (!result_any.is_same(self)) result_any.copy_(self);
  if (index.numel() == 0 || source.numel() == 0) return;
  const Tensor result = at_least_1d(result_any);
  if (result.numel() == 0) {  // the CPU only checks the indices of one dimension
    if (result.dim() == 1) refuse_outside(index, 0, adding);
    return;
  }
  check_fits(alpha, result.scalar_type());
  const bool logical = source.scalar_type() == ScalarType::Bool;
  if (logical && !alpha.to<bool>()) return;
  const bool whole = at::isIntegralType(source.scalar_type(), false);
  const at::Scalar factor = whole ? at::Scalar(alpha.to<int64_t>()) : alpha;
  const bool plain = logical || factor.equal(1);
  const Tensor values = at_least_1d(plain ? source : source.mul(factor));
  at::TensorIterator iter = index_iterator(walk(result, values.sizes(), dim), values,
                                           index_along(index, dim, result.dim()));
  index_put(iter, adding, {result.size(dim)}, {result.stride(dim) * result.element_size()});
}

}  // namespace native
}  // namespace ocl

namespace at::native {

OCL_STUB("index.Tensor", index_stub, &ocl::index)
REGISTER_PRIVATEUSE1_DISPATCH(index_put_stub, &ocl::index_put_elements)
REGISTER_PRIVATEUSE1_DISPATCH(index_put_with_sort_stub, &ocl::index_put_accumulating)
OCL_STUB("index_fill_", index_fill_stub, &ocl::index_fill)
OCL_STUB("index_copy", index_copy_stub, &ocl::index_copy)
OCL_STUB("take", take_stub, &ocl::take)
OCL_STUB("put_", put_stub, &ocl::put)
OCL_STUB("gather", gather_stub, &ocl::gather)
OCL_STUB("scatter.src", scatter_stub, &ocl::scatter)
OCL_STUB("scatter.value", scatter_fill_stub, &ocl::scatter_fill)
OCL_STUB("scatter_add", scatter_add_stub, &ocl::scatter_add)
OCL_STUB("scatter.reduce", scatter_reduce_stub, &ocl::scatter_reduce)
OCL_STUB("scatter.value_reduce", scatter_scalar_reduce_stub, &ocl::scatter_reduce_number)
OCL_COMPLEX("index.Tensor,_index_put_impl_,index_fill_,index_copy,take,put_,gather,index_add.out");
OCL_COMPLEX("scatter.src,scatter.value,scatter_add,scatter.reduce,scatter.value_reduce");
OCL_COMPLEX("index_select.out,index_select.default,embedding.default");
OCL_STUB("scatter_reduce.two", scatter_reduce_two_stub, &ocl::scatter_reduce)

}  // namespace at::native
