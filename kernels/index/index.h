// Reads and writes of elements that index tensors select: indexing, gather, scatter and similar
// operators.
#pragma once

#include <ATen/native/TensorIterator.h>

#include <string_view>

#include "kernels/core/types/dtype.h"

namespace ocl {

constexpr const char *kAddElements = "x + y", *kGreaterElements = "MAX(x, y)",
                     *kLesserElements = "MIN(x, y)";
// Up to this many writes in order, one work-item of a GPU takes little time; more writes are
// sorted.
constexpr size_t kMostInOrder = 2048;

// How an operator indexes.
struct Indexing {
  const char* name;  // the kernel's name
  int fault_site;
  bool wrap;  // whether negative indices count from the end
  // The expression in x (old element) and y (new value) to store; nullptr stores the new value.
  const char* combine = nullptr;
  bool in_order = false;       // the result does not depend on the order of the writes
  bool skips_outside = false;  // skips indices out of range without reporting them

  bool adds() const { return combine && std::string_view(combine) == kAddElements; }
};

// Positions of an iterator's operands; the result is operand 0.
struct IndexOperands {
  int other;  // index_get(): the indexed tensor; index_put(): the values; -1: a number
  int first_index;
};

// result[i] = other[index[i]]. In the iterator `other` has stride 0 along the indexed dimensions;
// `sizes` and `strides` (in bytes) describe them.
void index_get(at::TensorIteratorBase& iter, const Indexing& indexing, at::IntArrayRef sizes,
               at::IntArrayRef strides, IndexOperands operands = {1, 2});

// result[index[i]] = other[i], or the old element combined with it. Here the result has stride 0
// along the indexed dimensions.
void index_put(at::TensorIteratorBase& iter, const Indexing& indexing, at::IntArrayRef sizes,
               at::IntArrayRef strides, IndexOperands operands = {1, 2},
               const c10::Scalar& number = 0);

// An iterator over `result`, `other` (may be undefined) and `index`, not checked for overlap.
at::TensorIterator index_iterator(const at::Tensor& result, const at::Tensor& other,
                                  const at::Tensor& index);

}  // namespace ocl
