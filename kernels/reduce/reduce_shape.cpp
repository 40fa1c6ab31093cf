#include "kernels/reduce/reduce_shape.h"

#include <ATen/ceil_div.h>

#include <algorithm>

#include "backend/base/error.h"

namespace ocl {
namespace {

// Limited, because kernels take the dimensions in one argument.
constexpr size_t kMaxDims = 16;

void check_dimensions(const ReduceShape& shape) {
  TORCH_CHECK(shape.kept.size() <= kMaxDims && shape.reduced.size() <= kMaxDims,
              "reductions over more than ", kMaxDims,
              " dimensions that cannot be joined are not supported on ocl");
}

}  // namespace

ReduceShape ReduceShape::of(const at::TensorIteratorBase& iter) {
  ReduceShape shape;
  for (int d = 0; d < iter.ndim(); ++d) {
    const auto size = static_cast<size_t>(iter.shape()[d]);
    const int64_t out = iter.strides(0)[d], in = iter.strides(1)[d];
    // A dimension of size 1 may have any stride.
    if (out == 0 && size > 1) {
      shape.reduced.push_back({size, in});
    } else {
      shape.kept.push_back({size, in, out});
    }
  }
  // The iterator puts reduced dimensions first. It orders kept dimensions by the output's strides,
  // and reduced ones by the input's.
  const auto by_stride = [](const auto& a, const auto& b) { return a.in < b.in; };
  std::stable_sort(shape.reduced.begin(), shape.reduced.end(), by_stride);
  std::stable_sort(shape.kept.begin(), shape.kept.end(), by_stride);
  if (shape.kept.empty()) shape.kept.push_back({1, 0, 0});
  if (shape.reduced.empty()) shape.reduced.push_back({1, 0});
  shape.count = shape.elements();
  check_dimensions(shape);
  return shape;
}

ReduceShape ReduceShape::of_dimension(const at::TensorBase& in, int64_t dim, int64_t out_element) {
  ReduceShape shape;
  const int64_t element = in.element_size();
  int64_t out = out_element;  // the output is contiguous
  for (int64_t d = in.dim() - 1; d >= 0; --d) {
    if (d == dim || in.size(d) == 1) continue;
    const Kept here{static_cast<size_t>(in.size(d)), in.stride(d) * element, out};
    out *= in.size(d);
    Kept* inner = shape.kept.empty() ? nullptr : &shape.kept.back();
    if (inner && here.in == inner->in * static_cast<int64_t>(inner->size)) {
      inner->size *= here.size;  // merges two dimensions; the output's strides always fit
    } else {
      shape.kept.push_back(here);
    }
  }
  if (shape.kept.empty()) shape.kept.push_back({1, 0, 0});
  if (in.dim() == 0) {
    shape.reduced.push_back({1, 0});
  } else {
    shape.reduced.push_back({static_cast<size_t>(in.size(dim)), in.stride(dim) * element});
  }
  shape.count = shape.elements();
  check_dimensions(shape);
  return shape;
}

void ReduceShape::keep_parts(int64_t in_element, int64_t out_element) {
  Kept& first = kept[0];
  if (first.in == 2 * in_element && first.out == 2 * out_element) {
    first = {2 * first.size, in_element, out_element};
  } else {
    kept.push_back({2, in_element, out_element});
  }
}

ReduceShape ReduceShape::merging_parts(int64_t element) const {
  ReduceShape second;
  int64_t stride = element;
  for (const Kept& dim : kept) {
    second.kept.push_back({dim.size, stride, dim.out});
    stride *= static_cast<int64_t>(dim.size);
  }
  second.reduced.push_back({parts, stride});
  second.count = count;
  return second;
}

size_t ReduceShape::outputs() const {
  size_t product = 1;
  for (const Kept& dim : kept) product *= dim.size;
  return product;
}

size_t ReduceShape::elements() const {
  size_t product = 1;
  for (const Reduced& dim : reduced) product *= dim.size;
  return product;
}

size_t ReduceShape::column_block(const Device& device, size_t width, size_t most) const {
  const size_t columns = kept[0].size, rows = outputs() / columns;
  const size_t tasks = at::ceil_div(device.parameters().tasks, rows);
  return std::min(at::ceil_div(at::ceil_div(columns, tasks), width), most) * width;
}

void ReduceShape::bind(Arguments& arguments) const {
  // keep_parts() adds a dimension.
  std::array<int64_t, 3 * (kMaxDims + 1) + 2 * kMaxDims + 4> words;
  size_t n = 0;
  for (const Kept& dim : kept) words[n++] = static_cast<int64_t>(dim.size);
  for (const Kept& dim : kept) words[n++] = dim.in;
  for (const Kept& dim : kept) words[n++] = dim.out;
  for (const Reduced& dim : reduced) words[n++] = static_cast<int64_t>(dim.size);
  for (const Reduced& dim : reduced) words[n++] = dim.in;
  words[n++] = static_cast<int64_t>(outputs());
  words[n++] = static_cast<int64_t>(elements());
  words[n++] = static_cast<int64_t>(parts);
  words[n++] = static_cast<int64_t>(count);
  arguments.add_bytes(words.data(), n * sizeof(int64_t));
}

}  // namespace ocl
