#include "python/interop.h"

#include <pybind11/stl.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>

#include "backend/base/unlocked_wait.h"
#include "backend/memory/interop.h"
#include "backend/memory/storage.h"
#include "backend/queue/watchdog.h"
#include "kernels/core/operators/operands.h"
#include "kernels/core/tensors/lazy_clone.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/user/interop.h"
#include "kernels/user/user_kernel.h"
#include "python/threads.h"

namespace ocl {
namespace {

namespace py = pybind11;
using py::literals::operator""_a;

template <typename Handle>
Handle handle_of(uintptr_t address, const char* what) {
  // A wrong pointer crashes inside the driver; numbers that cannot be pointers are refused here.
  TORCH_CHECK_VALUE(address >= 4096 && address % alignof(void*) == 0, address, " is no ", what,
                    ": give its address, which pyopencl has as .int_ptr");
  return reinterpret_cast<Handle>(address);
}

uintptr_t address_of(const void* handle) { return reinterpret_cast<uintptr_t>(handle); }

// Returns a function that releases a Python object from any thread.
std::function<void()> release_of(const py::object& owner) {
  if (owner.is_none()) return {};
  std::shared_ptr<py::object> kept(new py::object(owner), [](py::object* object) {
    if (!Py_IsInitialized()) return;  // the process ends, and the system frees the memory
    py::gil_scoped_acquire acquire;
    delete object;
  });
  return [kept]() mutable { kept.reset(); };
}

// Waits without Python's lock, whether the caller holds it or not.
void run_unlocked(const std::function<void()>& wait) {
  if (!holds_python()) return wait();
  const py::gil_scoped_release unlocked;
  wait();
}

unsigned long main_thread = 0;

// Raises KeyboardInterrupt, or what another handler of a signal raises. Only the main thread does.
void check_interruption() {
  if (!Py_IsInitialized() || PyThread_get_thread_ident() != main_thread) return;
  const py::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

at::Tensor from_buffer(uintptr_t address, size_t offset, std::vector<int64_t> sizes,
                       const py::object& dtype, std::optional<std::vector<int64_t>> strides,
                       std::optional<DeviceIndex> device, const py::object& owner) {
  const auto type = reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type;
  auto release = release_of(owner);
  const py::gil_scoped_release unlocked;
  return tensor_of_buffer(device, handle_of<cl_mem>(address, "cl_mem"), offset,
                          {std::move(sizes), std::move(strides), type}, std::move(release));
}

// The cl_mem, the offset, and an object that keeps the memory.
py::tuple buffer(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return py::make_tuple(0, 0, py::none());
  const auto [found, hold] = [&] {
    const py::gil_scoped_release unlocked;
    own_memory(tensor);
    check_operands(tensor);
    return std::pair(view(tensor), new StorageHold(hold_storage(tensor.storage())));
  }();
  py::capsule kept(hold, [](void* kept) { delete static_cast<StorageHold*>(kept); });
  return py::make_tuple(address_of(found.buffer()), found.offset, std::move(kept));
}

c10::Stream stream_from(DeviceIndex device, StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, {c10::DeviceType::PrivateUse1, device}, id);
}

constexpr const char* kCapsule = "dltensor";

py::object dlpack_capsule(const at::Tensor& tensor) {
  DLManagedTensor* managed = nullptr;
  {
    const py::gil_scoped_release unlocked;  // to_dlpack() waits for the stream
    managed = to_dlpack(tensor);
  }
  return py::reinterpret_steal<py::object>(PyCapsule_New(managed, kCapsule, [](PyObject* capsule) {
    if (!PyCapsule_IsValid(capsule, kCapsule)) return;  // a consumer has taken the tensor
    auto* const left = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kCapsule));
    left->deleter(left);
  }));
}

// The tensor of a capsule; a consumed capsule has another name.
DLManagedTensor* in_capsule(const py::object& capsule) {
  TORCH_CHECK_VALUE(PyCapsule_IsValid(capsule.ptr(), kCapsule),
                    "expected a DLPack capsule that was not used yet, got ",
                    py::str(capsule).cast<std::string>());
  return static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), kCapsule));
}

at::Tensor from_capsule(const py::object& capsule, std::optional<DeviceIndex> device) {
  DLManagedTensor* const managed = in_capsule(capsule);
  PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  const py::gil_scoped_release unlocked;
  return from_dlpack(managed, device);
}

at::Scalar scalar_of(const py::handle& value) {
  if (PyBool_Check(value.ptr())) return value.cast<bool>();
  if (PyFloat_Check(value.ptr())) return value.cast<double>();
  const auto integer = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!integer) {
    PyErr_Clear();
    if (PyNumber_Check(value.ptr())) {
      return py::float_(py::reinterpret_borrow<py::object>(value)).cast<double>();
    }
    throw py::type_error(
        "an argument of a kernel is a tensor, a number, a tuple of numbers, None, "
        "bytes or torch.ocl.LocalMemory, not " +
        py::str(py::type::of(value)).cast<std::string>());
  }
  int overflow = 0;
  const long long small = PyLong_AsLongLongAndOverflow(integer.ptr(), &overflow);
  if (!overflow) return static_cast<int64_t>(small);
  const unsigned long long large = PyLong_AsUnsignedLongLong(integer.ptr());
  if (PyErr_Occurred()) {
    PyErr_Clear();
    throw py::value_error(py::str(integer).cast<std::string>() + " does not fit 64 bits");
  }
  return static_cast<uint64_t>(large);
}

KernelValue value_of(const py::handle& value) {
  if (value.is_none()) return std::monostate();
  if (THPVariable_Check(value.ptr())) return value.cast<at::Tensor>();
  if (py::isinstance<LocalMemory>(value)) return value.cast<LocalMemory>();
  if (py::isinstance<py::bytes>(value)) return value.cast<std::string>();
  std::vector<at::Scalar> numbers;
  if (py::isinstance<py::tuple>(value) || py::isinstance<py::list>(value)) {
    for (const auto& each : value) numbers.push_back(scalar_of(each));
  } else {
    numbers.push_back(scalar_of(value));
  }
  return numbers;
}

void call(UserLibrary& library, const std::string& kernel, const py::tuple& arguments,
          std::optional<std::vector<int64_t>> threads,
          std::optional<std::vector<int64_t>> group_size, bool strided) {
  std::vector<KernelValue> values;
  values.reserve(arguments.size());
  for (const auto& each : arguments) values.push_back(value_of(each));
  const KernelRange range{std::move(threads), std::move(group_size), strided};
  py::gil_scoped_release release;
  library.call(kernel, values, range);
}

// {name: (arguments as text, ...)}
py::dict kernels_of(UserLibrary& library, DeviceIndex index) {
  const std::vector<KernelSignature>* kernels = nullptr;
  {
    const py::gil_scoped_release unlocked;  // kernels() compiles
    kernels = &library.kernels(device(index));
  }
  py::dict found;
  for (const KernelSignature& kernel : *kernels) {
    py::list arguments;
    for (const KernelArgument& argument : kernel.arguments) arguments.append(argument.text());
    found[py::str(kernel.name)] = py::tuple(arguments);
  }
  return found;
}

void bind_user_kernels(py::module_& m) {
  py::class_<LocalMemory>(m, "LocalMemory",
                          "A __local argument of a kernel: a number of bytes for each work-group.")
      .def(py::init([](size_t bytes) {
             TORCH_CHECK_VALUE(bytes > 0, "LocalMemory needs at least one byte");
             return LocalMemory{bytes};
           }),
           "bytes"_a)
      .def_readonly("bytes", &LocalMemory::bytes);
  py::class_<UserLibrary>(m, "UserLibrary")
      .def(py::init<std::string, std::string>())
      .def("kernels", &kernels_of)
      .def("call", &call);
}

}  // namespace

void bind_interop(py::module_& m) {
  bind_user_kernels(m);

  // Starting drivers and making contexts and queues takes long, so Python's lock is released.
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  set_wait_wrapper(&run_unlocked);
  main_thread =
      py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>();
  watchdog::set_check_interruption(&check_interruption);
  m.def(
      "use_context",
      [](uintptr_t context) {
        return int{use_context(handle_of<cl_context>(context, "cl_context")).index()};
      },
      Unlocked());
  m.def(
      "context", [](DeviceIndex index) { return address_of(device(index).context()()); },
      Unlocked());
  m.def(
      "device_id", [](DeviceIndex index) { return address_of(device(index).handle()()); },
      Unlocked());
  m.def(
      "queue",
      [](DeviceIndex device, StreamId id) {
        return address_of(stream(stream_from(device, id)).lasting_queue()());
      },
      Unlocked());
  m.def("external_stream", [](uintptr_t queue) {
    const c10::Stream found = [&] {
      const py::gil_scoped_release unlocked;
      return external_stream(handle_of<cl_command_queue>(queue, "cl_command_queue"));
    }();
    return py::make_tuple(int{found.device_index()}, found.id());
  });
  m.def("buffer", &buffer);
  m.def("check_foreign", &check_foreign, Unlocked());
  m.def("fix_storage_size",
        [](const py::object& storage) { fix_storage_size(torch::createStorage(storage.ptr())); });
  m.def("from_buffer", &from_buffer);
  m.def("from_host", &tensor_of_host, Unlocked());
  m.def("dlpack_capsule", &dlpack_capsule);
  m.def("dlpack_capsule_device", [](const py::object& capsule) {
    return int{in_capsule(capsule)->dl_tensor.device.device_type};
  });
  m.def("from_dlpack_capsule", &from_capsule);

  py::class_<HostMap>(m, "HostMap")
      .def(py::init<at::Tensor, bool>())
      .def("enter", &HostMap::enter, Unlocked())
      .def("exit", &HostMap::exit, Unlocked());
}

}  // namespace ocl
