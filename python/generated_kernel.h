// Kernels that Inductor generates, as callables for Python (torch_ocl/inductor).
#pragma once

#include <pybind11/pybind11.h>

namespace ocl {

void bind_generated_kernels(pybind11::module_& m);

}  // namespace ocl
