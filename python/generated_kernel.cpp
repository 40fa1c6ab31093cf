#include "python/generated_kernel.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <structmember.h>

#include "kernels/grid.h"

namespace ocl {
namespace {

// How the units of a launch are given to work-items.
enum class Shape : char {
  kTasks = 't',   // each of a few tasks loops over its share
  kItems = 'i',   // one work-item for each
  kGroups = 'g',  // one work-group for each
};

constexpr const char* kUsage =
    "generated_kernel(name, file, signature, shape, local_size, doc): the signature has a letter "
    "for each argument of a call: b (tensor), l (int), d (float); f, without an argument, where "
    "the kernel takes the word for index errors";

// A call passes the arguments of the signature, then the number of units and their cost in
// elements. It is a type of CPython's own, as pybind11's conversions take longer than the launch.
struct GeneratedKernel {
  PyObject_HEAD vectorcallfunc call;
  KernelSource* source;
  std::string* signature;
  uint64_t site;
  int fault;
  size_t local_size;
  Shape shape;
};

[[noreturn]] void refuse(const GeneratedKernel& self, const std::string& what) {
  TORCH_CHECK_TYPE(false, self.source->kernel, "(): ", what);
}

std::pair<Range, Range> geometry(const GeneratedKernel& self, const Device& device, size_t units,
                                 size_t cost) {
  if (self.shape == Shape::kTasks) {
    const DeviceParameters& parameters = device.parameters();
    const size_t wanted = std::clamp<size_t>(cost / parameters.grain, 1, parameters.tasks);
    return {{std::min(wanted, units)}, {1}};
  }
  const size_t limit = device.parameters().work_group_size;
  const size_t local = std::min<size_t>(self.local_size, limit);
  if (self.shape == Shape::kGroups) return {{units * local}, {local}};
  return {{(units + local - 1) / local * local}, {local}};
}

void launch(const GeneratedKernel& self, PyObject* const* values, size_t count) {
  const std::string& signature = *self.signature;
  size_t expected = 2;
  for (const char kind : signature) expected += kind != 'f';
  if (count != expected) {
    refuse(self, c10::str("takes ", expected, " arguments, not ", count));
  }
  const auto number = [&](PyObject* value) {
    const long long result = PyLong_AsLongLong(value);
    if (result == -1 && PyErr_Occurred()) throw python_error();
    return int64_t{result};
  };
  const int64_t units = number(values[count - 2]), cost = number(values[count - 1]);
  if (units <= 0) return;

  if (signature.empty() || signature[0] != 'b' || !THPVariable_Check(values[0])) {
    refuse(self, "the first argument must be a tensor");
  }
  Device& device = resolve(THPVariable_Unpack(values[0]).data_ptr()).device();
  Stream& stream = current_stream(device.index());
  const Kernel& kernel = find_kernel(device, {self.site}, [&] { return *self.source; });
  Arguments arguments(stream, kernel);
  size_t next = 0;
  for (const char kind : signature) {
    if (kind == 'f') {
      arguments.add(FaultArgument{self.fault});
      continue;
    }
    PyObject* const value = values[next++];
    if (kind == 'b') {
      if (!THPVariable_Check(value)) refuse(self, c10::str("argument ", next, " is no tensor"));
      arguments.add(resolve(THPVariable_Unpack(value).data_ptr()));
    } else if (kind == 'l') {
      arguments.add(number(value));
    } else {
      const double result = PyFloat_AsDouble(value);
      if (result == -1 && PyErr_Occurred()) throw python_error();
      arguments.add(result);
    }
  }
  const auto [global, local] = geometry(self, device, units, cost);
  arguments.enqueue(global, local);
}

PyObject* call(PyObject* self, PyObject* const* values, size_t count, PyObject* names) {
  HANDLE_TH_ERRORS
  const auto& kernel = *reinterpret_cast<GeneratedKernel*>(self);
  if (names && PyTuple_GET_SIZE(names)) refuse(kernel, "takes no keyword arguments");
  launch(kernel, values, static_cast<size_t>(PyVectorcall_NARGS(count)));
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

void destroy(PyObject* self) {
  auto* kernel = reinterpret_cast<GeneratedKernel*>(self);
  delete kernel->source;
  delete kernel->signature;
  PyTypeObject* const type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyTypeObject* type() {
  static PyTypeObject* const made = [] {
    static PyMemberDef members[] = {
        {"__vectorcalloffset__", T_PYSSIZET, offsetof(GeneratedKernel, call), READONLY, nullptr},
        {nullptr}};
    static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(&destroy)},
                                  {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
                                  {Py_tp_members, members},
                                  {0, nullptr}};
    static PyType_Spec spec = {"torch_ocl._C.GeneratedKernel", sizeof(GeneratedKernel), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, slots};
    return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  }();
  if (!made) throw python_error();
  return made;
}

pybind11::object make(const std::string& name, const std::string& file,
                      const std::string& signature, char shape, size_t local_size) {
  static std::atomic<uint64_t> count{0};
  auto* const self = reinterpret_cast<GeneratedKernel*>(type()->tp_alloc(type(), 0));
  if (!self) throw python_error();
  self->call = &call;
  self->source = new KernelSource{file, name, {}};
  self->signature = new std::string(signature);
  // The upper half tells it from the sites of other kernels.
  self->site = (uint64_t{0x696E6475} << 32) + ++count;
  self->fault = signature.find('f') == std::string::npos
                    ? 0
                    : fault_site({name, FaultClass::kIndex, "index", "dimension of size"});
  self->local_size = local_size;
  self->shape = static_cast<Shape>(shape);
  return pybind11::reinterpret_steal<pybind11::object>(reinterpret_cast<PyObject*>(self));
}

}  // namespace

void bind_generated_kernels(pybind11::module_& m) {
  using pybind11::literals::operator""_a;
  m.def("generated_kernel", &make, "name"_a, "file"_a, "signature"_a, "shape"_a, "local_size"_a,
        kUsage);
}

}  // namespace ocl
