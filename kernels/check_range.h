// Parameters of distributions, and indices, that only a kernel sees.
#pragma once

#include <ATen/core/Tensor.h>

namespace ocl {

// What a tensor may hold, and the fault (backend/fault.h) of an element that is not in the range or
// no number. The text names `bound`, and the element's place, or the element if it is an integer.
struct AllowedRange {
  double low, high;
  int64_t bound;
  int fault_site;
};

void check_range(const at::Tensor& numbers, const AllowedRange& allowed);

}  // namespace ocl
