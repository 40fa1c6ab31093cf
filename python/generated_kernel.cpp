#include "python/generated_kernel.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <structmember.h>

#include "kernels/inductor/generated_kernel.h"

namespace ocl {
namespace {

constexpr const char* kUsage =
    "generated_kernel(name, file, signature, shape, local_size, doc): the signature has a letter "
    "for each argument of a call: b (tensor), l (int), d or s (float, of 64 or 32 bits); f, "
    "without an argument, where the kernel takes the word for index errors";

// A call passes the arguments of the signature, then the number of units and their cost in
// elements. The type uses CPython's API, because pybind11's conversions take longer than the
// launch.
struct KernelObject {
  PyObject_HEAD vectorcallfunc call;
  GeneratedKernel* kernel;
  uint64_t launched_on;  // a bit for each device
};

[[noreturn]] void refuse(const GeneratedKernel& kernel, const std::string& what) {
  TORCH_CHECK_TYPE(false, kernel.name(), "(): ", what);
}

int64_t number(PyObject* value) {
  const long long result = PyLong_AsLongLong(value);
  if (result == -1 && PyErr_Occurred()) throw python_error();
  return result;
}

void launch(KernelObject& object, PyObject* const* values, size_t count) {
  const GeneratedKernel& kernel = *object.kernel;
  const size_t expected = kernel.arguments();
  if (count != expected + 2) {
    refuse(kernel, c10::str("takes ", expected + 2, " arguments, not ", count));
  }
  const int64_t units = number(values[expected]), cost = number(values[expected + 1]);
  if (units <= 0) return;

  const std::string& signature = kernel.signature();
  if (signature.empty() || signature[0] != 'b' || !THPVariable_Check(values[0])) {
    refuse(kernel, "the first argument must be a tensor");
  }
  c10::SmallVector<OclArgument, 16> arguments(expected);
  size_t next = 0;
  for (const char kind : signature) {
    if (kind == 'f') continue;
    PyObject* const value = values[next];
    OclArgument& argument = arguments[next++];
    if (kind == 'b') {
      if (!THPVariable_Check(value)) refuse(kernel, c10::str("argument ", next, " is no tensor"));
      argument.address = THPVariable_Unpack(value).data_ptr();
    } else if (kind == 'l') {
      argument.integer = number(value);
    } else {
      argument.real = PyFloat_AsDouble(value);
      if (argument.real == -1 && PyErr_Occurred()) throw python_error();
    }
  }
  const uint64_t device = uint64_t{1} << (THPVariable_Unpack(values[0]).device().index() & 63);
  if (C10_LIKELY(object.launched_on & device)) return kernel.launch(arguments.data(), units, cost);
  {
    const pybind11::gil_scoped_release unlocked;  // the launch compiles the kernel
    kernel.launch(arguments.data(), units, cost);
  }
  object.launched_on |= device;
}

PyObject* call(PyObject* self, PyObject* const* values, size_t count, PyObject* names) {
  HANDLE_TH_ERRORS
  auto& object = *reinterpret_cast<KernelObject*>(self);
  if (names && PyTuple_GET_SIZE(names)) refuse(*object.kernel, "takes no keyword arguments");
  launch(object, values, static_cast<size_t>(PyVectorcall_NARGS(count)));
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

void destroy(PyObject* self) {
  delete reinterpret_cast<KernelObject*>(self)->kernel;
  PyTypeObject* const type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyTypeObject* type() {
  static PyTypeObject* const made = [] {
    static PyMemberDef members[] = {
        {"__vectorcalloffset__", T_PYSSIZET, offsetof(KernelObject, call), READONLY, nullptr},
        {nullptr}};
    static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(&destroy)},
                                  {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
                                  {Py_tp_members, members},
                                  {0, nullptr}};
    static PyType_Spec spec = {"torch_ocl._C.GeneratedKernel", sizeof(KernelObject), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, slots};
    return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  }();
  if (!made) throw python_error();
  return made;
}

pybind11::object make(const std::string& name, const std::string& file,
                      const std::string& signature, char shape, size_t local_size) {
  auto* const self = reinterpret_cast<KernelObject*>(type()->tp_alloc(type(), 0));
  if (!self) throw python_error();
  self->call = &call;
  self->kernel = new GeneratedKernel(name, file, signature, shape, local_size);
  return pybind11::reinterpret_steal<pybind11::object>(reinterpret_cast<PyObject*>(self));
}

}  // namespace

void bind_generated_kernels(pybind11::module_& m) {
  using pybind11::literals::operator""_a;
  m.def("generated_kernel", &make, "name"_a, "file"_a, "signature"_a, "shape"_a, "local_size"_a,
        kUsage);
}

}  // namespace ocl
