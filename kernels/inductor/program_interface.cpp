// Implements torch_ocl/program_interface.h, and registers the loader of AOTInductor's packages.
#include "torch_ocl/program_interface.h"

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner.h>
#include <torch/library.h>

#include <mutex>
#include <unordered_map>

#include "backend/memory/allocator.h"
#include "backend/memory/transfer.h"
#include "backend/program/runtime_source.h"
#include "backend/queue/stream.h"
#include "backend/queue/watchdog.h"
#include "kernels/inductor/generated_kernel.h"
#include "kernels/inductor/operator_call.h"

namespace ocl {
namespace {

// Exceptions do not cross the interface: a program may be built with another compiler.
template <typename Function>
const char* guarded(Function&& function) {
  thread_local std::string text;
  try {
    function();
    return nullptr;
  } catch (const c10::Error& error) {
    text = error.what_without_backtrace();
  } catch (const std::exception& error) {
    text = error.what();
  }
  return text.c_str();
}

// Kernels are kept when a package is unloaded, so that loading it again builds nothing.
const GeneratedKernel& find_or_make(const OclKernelDescription& description) {
  static auto* const mutex = new std::mutex;
  static auto* const kernels = new std::unordered_map<std::string, GeneratedKernel>;
  const std::string key =
      c10::str(description.name, '\n', description.signature, '\n', description.shape, '\n',
               description.local_size, '\n', description.source);
  std::lock_guard lock(*mutex);
  const auto found = kernels->find(key);
  if (found != kernels->end()) return found->second;
  const auto made = kernels->try_emplace(
      key, description.name, add_runtime_source(description.name, description.source),
      description.signature, description.shape, description.local_size);
  return made.first->second;
}

const char* make_kernel(const OclKernelDescription* description, const void** kernel) {
  return guarded([&] { *kernel = &find_or_make(*description); });
}

const char* launch_kernel(const void* kernel, const OclArgument* arguments, int64_t units,
                          int64_t cost) {
  return guarded(
      [&] { static_cast<const GeneratedKernel*>(kernel)->launch(arguments, units, cost); });
}

struct Blocks {
  std::mutex mutex;
  std::unordered_map<void*, c10::DataPtr> pointers;
};

Blocks& blocks() {
  static auto* const instance = new Blocks;
  return *instance;
}

const char* allocate(size_t bytes, void** address) {
  return guarded([&] {
    c10::DataPtr pointer = Allocator::instance().allocate(bytes);
    *address = pointer.get();
    std::lock_guard lock(blocks().mutex);
    blocks().pointers.emplace(*address, std::move(pointer));
  });
}

// Waits, because a program may free constants that calls on any stream still read.
const char* release(void* address) {
  return guarded([&] {
    Device& device = resolve(address).device();
    drain(device.index());
    if (watchdog::is_stuck(device)) return;  // leaked, because the device may still use it
    std::lock_guard lock(blocks().mutex);
    blocks().pointers.erase(address);
  });
}

const char* upload(void* device, const void* host, size_t bytes) {
  return guarded([&] {
    const BufferView view = resolve(device);
    copy_to_device(current_stream(view.device().index()), view, host, bytes);
  });
}

// AOTInductor passes the size of a tensor's storage with the address of its first element.
const char* copy(void* destination, const void* source, size_t bytes) {
  return guarded([&] {
    const BufferView from = resolve(source);
    const size_t left = from.segment->size - from.offset;
    copy_on_device(current_stream(from.device().index()), resolve(destination), from,
                   std::min(bytes, left));
  });
}

const char* find_operator(const char* name, const char* overload, const void** found) {
  return guarded([&] {
    *found =
        new c10::OperatorHandle(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload));
  });
}

const char* call(const void* found, const OclValue* arguments, int64_t count, void** results,
                 int64_t result_count) {
  return guarded([&] {
    call_operator(*static_cast<const c10::OperatorHandle*>(found), arguments, count, results,
                  result_count);
  });
}

int64_t program_interface() {
  static constexpr OclProgramInterface interface {
    kOclInterfaceVersion, &make_kernel, &launch_kernel, &allocate, &release, &upload, &copy,
        &find_operator, &call
  };
  return reinterpret_cast<int64_t>(&interface);
}

using torch::inductor::AOTIModelContainerRunner;

class Runner final : public AOTIModelContainerRunner {
 public:
  Runner(const std::string& library, size_t models, const std::string& device,
         const std::string& binaries, bool single_threaded)
      : AOTIModelContainerRunner(library, models, device, binaries, single_threaded) {}
};

std::unique_ptr<AOTIModelContainerRunner> load(const std::string& library, size_t models,
                                               const std::string& device_name,
                                               const std::string& binaries,
                                               const bool single_threaded) {
  const at::Device device(device_name);
  const c10::DeviceGuard guard(device.has_index() ? device
                                                  : at::Device(device.type(), current_device()));
  // torch_ocl/program.h gives AOTInductor's headers this name for the device.
  const std::string name = c10::str("mps:", static_cast<int>(guard.current_device().index()));
  return std::make_unique<Runner>(library, models, name, binaries, single_threaded);
}

const torch::inductor::RegisterAOTIModelRunner registered("ocl", &load);

}  // namespace
}  // namespace ocl

TORCH_LIBRARY_FRAGMENT(ocl, m) {
  m.def("program_interface() -> int", TORCH_FN(ocl::program_interface));
}
