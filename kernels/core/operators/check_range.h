// Range checks of tensors whose values only a kernel sees: parameters of distributions, indices.
#pragma once

#include <ATen/core/Tensor.h>

namespace ocl {

// The allowed values are low to high; other values and NaN raise a fault (backend/queue/fault.h).
// Its text names `bound`. Its value is the element if that is an integer, else the element's
// position.
struct AllowedRange {
  double low, high;
  int64_t bound;
  int fault_site;
};

void check_range(const at::Tensor& numbers, const AllowedRange& allowed);

// The site of the fault for integer division by zero.
int zero_division_site();

}  // namespace ocl
