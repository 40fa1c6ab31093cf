// Names of kernels/user/interop.h and kernels/user/user_kernel.h for Python.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace ocl {

void bind_interop(pybind11::module_& m);

}  // namespace ocl
