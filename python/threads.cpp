#include "python/threads.h"

#include "backend/base/fault_thread.h"
#include "guard/backward_threads.h"

namespace py = pybind11;

namespace ocl {
namespace {

bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing();
#else
  return _Py_IsFinalizing();
#endif
}

uint64_t current_number() {
  PyThreadState* const state = Py_IsInitialized() ? PyGILState_GetThisThreadState() : nullptr;
  return state ? PyThreadState_GetID(state) : 0;
}

bool has_ended(uint64_t number) {
  if (!Py_IsInitialized() || is_finalizing()) return false;
  const py::gil_scoped_acquire acquire;
  PyThreadState* state = PyInterpreterState_ThreadHead(PyInterpreterState_Main());
  while (state && PyThreadState_GetID(state) != number) state = PyThreadState_Next(state);
  return !state;
}

// PyTorch refuses a backward pass of a thread for which PyGILState_Check() is true. Once there has
// been a second interpreter, that is every thread.
void wait_for_backward() {
  if (!PyGILState_Check()) wait_for_backward_threads();
}

}  // namespace

bool holds_python() noexcept {
  if (!Py_IsInitialized()) return false;
  PyThreadState* const state = PyGILState_GetThisThreadState();
#if PY_VERSION_HEX >= 0x030D0000
  return state && state == PyThreadState_GetUnchecked();
#else
  return state && state == _PyThreadState_UncheckedGet();
#endif
}

void bind_threads(py::module_& m) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  m.def("drain_devices", &drain_devices, Unlocked());
  m.def("wait_for_backward_threads", &wait_for_backward, Unlocked());
  set_python_threads({&current_number, &has_ended});
}

}  // namespace ocl
