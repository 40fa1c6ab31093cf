// Copies that exchange the innermost dimension with another one.
#pragma once

#include <ATen/TensorIterator.h>

namespace ocl {

// Copies, and returns true, where it is faster than the element-wise kernel: the types are the
// same, there is at most one more dimension, and neither of the two is small.
bool copy_transposed(at::TensorIteratorBase& iter);

}  // namespace ocl
