// The part of torch_ocl._C about graphs.
#pragma once

#include <pybind11/pybind11.h>

namespace ocl {

void bind_graph(pybind11::module_& m);

}  // namespace ocl
