// Python's threads, and its lock.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace ocl {

// Whether this thread holds Python's lock. PyGILState_Check() is always true once there has been a
// second interpreter. In a thread of such an interpreter, this is false.
bool holds_python() noexcept;

void bind_threads(pybind11::module_& m);

}  // namespace ocl
