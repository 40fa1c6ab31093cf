// Elements found by index tensors: indexing, gather, scatter and their like.
#pragma once

#include <ATen/native/TensorIterator.h>

#include <string_view>

#include "kernels/core/types/dtype.h"

namespace ocl {

constexpr const char *kAddElements = "x + y", *kGreaterElements = "MAX(x, y)",
                     *kLesserElements = "MIN(x, y)";
// The most additions that one work-item of a GPU makes one after another. A desktop's GPU is reset
// if a launch takes seconds.
constexpr size_t kMostInOrder = 2048;

// How a family of operators indexes.
struct Indexing {
  const char* name;  // of the kernel
  int fault_site;
  bool wrap;  // whether negative indices count from the end
  // The expression in x (old element) and y (new value) to store; nullptr stores the new value.
  const char* combine = nullptr;
  bool in_order = false;       // the result does not depend on the order in which items run
  bool skips_outside = false;  // indices out of range are skipped and not reported

  bool adds() const { return combine && std::string_view(combine) == kAddElements; }
};

// Positions of an iterator's operands; the result is operand 0.
struct IndexOperands {
  int other;  // the indexed tensor of index_get, the values of index_put; -1: one number
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
