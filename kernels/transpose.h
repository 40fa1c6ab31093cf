// Copies that exchange the innermost dimension with another one.
#pragma once

#include <ATen/TensorIterator.h>

namespace ocl {

// Copies if it can do better than the element-wise kernel: types are the same, at most one more
// dimension besides the two, and neither of them small.
bool copy_transposed(at::TensorIteratorBase& iter);

}  // namespace ocl
