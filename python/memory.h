// Snapshots and the history of the allocator for Python.
#pragma once

#include <pybind11/pybind11.h>

namespace ocl {

void bind_memory(pybind11::module_& m);

}  // namespace ocl
