// The common part of C++ programs that Inductor generates. Include it before all headers of
// AOTInductor.
//
// Those headers know only PyTorch's own devices: parse_device_str() takes four names, and memory
// for constants comes from the functions of one of four macros. Only MPS's macro needs nothing but
// functions. So a program for ocl is compiled with MPS's macro, and this file replaces the
// functions and the device's number by ours. It is C++17, because PyTorch 2.11 compiles programs as
// such.
//
// These headers have guards, not `#pragma once`: Inductor keeps precompiled headers, and does not
// notice edited comments. `#pragma once` would then include the file a second time.
#ifndef TORCH_OCL_PROGRAM_H
#define TORCH_OCL_PROGRAM_H

#include <atomic>
#include <cstdio>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch_ocl/program_interface.h>

#define USE_MPS 1
#define aoti_torch_device_type_mps aoti_torch_device_type_privateuse1
#define aoti_torch_mps_malloc torch_ocl_malloc
#define aoti_torch_mps_free torch_ocl_free
#define aoti_torch_mps_memcpy torch_ocl_memcpy
#define aoti_torch_mps_copy_buffer torch_ocl_copy_buffer

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/inductor/aoti_torch/c/shim_mps.h>

#include <torch/csrc/inductor/aoti_runtime/utils.h>

// Hidden from other programs of the process, which may have another version: otherwise they would
// share the static variables of inline functions.
namespace torch_ocl {
namespace {

inline const OclProgramInterface& find_interface() {
  StableIValue result = 0;
  if (aoti_torch_call_dispatcher("ocl::program_interface", "", &result) != AOTI_TORCH_SUCCESS) {
    throw std::runtime_error(
        "this program runs on the device ocl: import torch_ocl before it is called");
  }
  const auto& found = *reinterpret_cast<const OclProgramInterface*>(result);
  if (found.version != kOclInterfaceVersion) {
    throw std::runtime_error(
        "this program was compiled with another version of torch_ocl (interface " +
        std::to_string(kOclInterfaceVersion) + ", installed is " + std::to_string(found.version) +
        "); compile it again");
  }
  return found;
}

inline const OclProgramInterface& interface() {
  static const OclProgramInterface& found = find_interface();
  return found;
}

inline void check(const char* error) {
  if (error) throw std::runtime_error(error);
}

inline AOTITorchError status(const char* error) {
  if (!error) return AOTI_TORCH_SUCCESS;
  fprintf(stderr, "torch_ocl: %s\n", error);
  return AOTI_TORCH_FAILURE;
}

// A floating-point argument. It has a type of its own, because an integer argument would truncate
// it.
struct Real {
  double value;
};

template <typename Integer, std::enable_if_t<std::is_integral_v<Integer>, int> = 0>
OclArgument argument(Integer value) {
  OclArgument made;
  made.integer = value;
  return made;
}

inline OclArgument argument(Real number) {
  OclArgument made;
  made.real = number.value;
  return made;
}

template <typename Tensor, typename = decltype(std::declval<const Tensor&>().data_ptr())>
OclArgument argument(const Tensor& tensor) {
  OclArgument made;
  made.address = tensor.data_ptr();
  return made;
}

class Kernel {
 public:
  Kernel(const char* name, const char* signature, char shape, int64_t local_size,
         const char* source)
      : description_{name, source, signature, shape, local_size} {}

  // The values: the arguments of the signature, then the number of units and their cost in
  // elements.
  template <typename... Arguments>
  void operator()(const Arguments&... values) const {
    const OclArgument arguments[] = {argument(values)...};
    constexpr size_t count = sizeof...(values) - 2;
    check(interface().launch(made(), arguments, arguments[count].integer,
                             arguments[count + 1].integer));
  }

 private:
  const void* made() const {
    const void* kernel = kernel_.load(std::memory_order_acquire);
    if (!kernel) {
      check(interface().make_kernel(&description_, &kernel));
      kernel_.store(kernel, std::memory_order_release);
    }
    return kernel;
  }

  OclKernelDescription description_;
  mutable std::atomic<const void*> kernel_{nullptr};
};

inline OclValue value_of(OclValue::Kind kind) {
  OclValue made{};
  made.kind = kind;
  return made;
}

inline OclValue none() { return value_of(OclValue::kNone); }

inline OclValue tensor(AtenTensorHandle handle) {
  OclValue made = value_of(OclValue::kTensor);
  made.tensor = handle;
  return made;
}

inline OclValue integer(int64_t number, OclValue::Kind kind = OclValue::kInteger) {
  OclValue made = value_of(kind);
  made.integer = number;
  return made;
}

inline OclValue boolean(bool truth) { return integer(truth, OclValue::kBoolean); }

inline OclValue real(double number) {
  OclValue made = value_of(OclValue::kReal);
  made.real = number;
  return made;
}

inline OclValue text(const char* characters) {
  OclValue made = value_of(OclValue::kText);
  made.text = characters;
  return made;
}

inline OclValue device(int64_t type, int64_t index) {
  OclValue made = integer(type, OclValue::kDevice);
  made.count = index;
  return made;
}

// The items live until the end of the statement.
inline OclValue list(std::initializer_list<OclValue> items) {
  OclValue made = value_of(OclValue::kList);
  made.items = items.begin();
  made.count = static_cast<int64_t>(items.size());
  return made;
}

class Operator {
 public:
  Operator(const char* name, const char* overload) {
    check(interface().find_operator(name, overload, &found_));
  }

  // nullptr for a result that is not used.
  void operator()(std::initializer_list<OclValue> arguments,
                  std::initializer_list<torch::aot_inductor::RAIIAtenTensorHandle*> places) const {
    std::vector<void*> results(places.size());
    check(interface().call(found_, arguments.begin(), static_cast<int64_t>(arguments.size()),
                           results.data(), static_cast<int64_t>(results.size())));
    auto result = results.begin();
    for (torch::aot_inductor::RAIIAtenTensorHandle* const place : places) {
      torch::aot_inductor::RAIIAtenTensorHandle owner(static_cast<AtenTensorHandle>(*result++));
      if (place) *place = std::move(owner);
    }
  }

 private:
  const void* found_ = nullptr;
};

}  // namespace
}  // namespace torch_ocl

extern "C" {

inline AOTITorchError torch_ocl_malloc(void** buffer, size_t bytes) {
  // Errors are raised here, because AOTInductor does not check the result.
  torch_ocl::check(torch_ocl::interface().allocate(bytes, buffer));
  return AOTI_TORCH_SUCCESS;
}

inline AOTITorchError torch_ocl_free(void* address) {
  return torch_ocl::status(torch_ocl::interface().release(address));
}

inline AOTITorchError torch_ocl_memcpy(void* blob, size_t offset, size_t from, size_t bytes,
                                       uint8_t* constants) {
  void* const target = static_cast<uint8_t*>(blob) + offset;
  torch_ocl::check(torch_ocl::interface().upload(target, constants + from, bytes));
  return AOTI_TORCH_SUCCESS;
}

// The source's address already includes its offset.
inline AOTITorchError torch_ocl_copy_buffer(void* source, void* blob, size_t bytes, size_t,
                                            size_t offset) {
  torch_ocl::check(
      torch_ocl::interface().copy(static_cast<uint8_t*>(blob) + offset, source, bytes));
  return AOTI_TORCH_SUCCESS;
}

}  // extern "C"

static inline AOTITorchError aoti_torch_ocl_view_dtype(AtenTensorHandle tensor, int32_t dtype,
                                                       AtenTensorHandle* view) {
  static const torch_ocl::Operator viewed("aten::view", "dtype");
  torch::aot_inductor::RAIIAtenTensorHandle result;
  viewed({torch_ocl::tensor(tensor), torch_ocl::integer(dtype)}, {&result});
  *view = result.release();
  return AOTI_TORCH_SUCCESS;
}

#endif  // TORCH_OCL_PROGRAM_H
