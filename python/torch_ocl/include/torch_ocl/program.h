// The part that programs in C++ have in common. To be included before all headers of AOTInductor.
//
// Those know no other devices than PyTorch's own: parse_device_str() takes four names, and memory
// for constants comes from the functions of one of four macros. MPS is the one that asks only for
// functions: a program of ocl is compiled with its macro, and with the functions and the device's
// number replaced by ours.
#pragma once

#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <string>

#include <torch_ocl/program_interface.h>

#define USE_MPS 1
#define aoti_torch_device_type_mps aoti_torch_device_type_privateuse1
#define aoti_torch_mps_malloc torch_ocl_malloc
#define aoti_torch_mps_free torch_ocl_free
#define aoti_torch_mps_memcpy torch_ocl_memcpy
#define aoti_torch_mps_copy_buffer torch_ocl_copy_buffer

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/inductor/aoti_torch/c/shim_mps.h>

namespace torch_ocl {

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

inline OclArgument argument(int64_t value) {
  OclArgument made;
  made.integer = value;
  return made;
}

template <typename Tensor>
  requires requires(const Tensor& tensor) { tensor.data_ptr(); }
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

  // The arguments of the signature, then the number of units and their cost in elements.
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

}  // namespace torch_ocl

extern "C" {

inline AOTITorchError torch_ocl_malloc(void** buffer, size_t bytes) {
  // Errors of memory are reported here: AOTInductor looks at no result.
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

// The source's address has its offset in it already.
inline AOTITorchError torch_ocl_copy_buffer(void* source, void* blob, size_t bytes, size_t,
                                            size_t offset) {
  torch_ocl::check(torch_ocl::interface().copy(static_cast<uint8_t*>(blob) + offset, source, bytes));
  return AOTI_TORCH_SUCCESS;
}

inline AOTITorchError aoti_torch_ocl_view_dtype(AtenTensorHandle tensor, int32_t dtype,
                                                AtenTensorHandle* view) {
  void* made = nullptr;
  torch_ocl::check(torch_ocl::interface().view_dtype(tensor, dtype, &made));
  *view = static_cast<AtenTensorHandle>(made);
  return AOTI_TORCH_SUCCESS;
}

}  // extern "C"
