// Copies that exchange the innermost dimension with another dimension.
#pragma once

#include <ATen/TensorIterator.h>

namespace ocl {

// Copies and returns true if that is faster than the element-wise kernel: the types are equal,
// there is at most one more dimension, and neither of the two dimensions is small.
bool copy_transposed(at::TensorIteratorBase& iter);

}  // namespace ocl
