#include "kernels/user/user_arguments.h"

#include <ATen/core/Formatting.h>

#include <algorithm>

#include "backend/base/error.h"
#include "backend/memory/allocator.h"
#include "kernels/core/operators/operands.h"
#include "kernels/core/tensors/lazy_clone.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/user/user_types.h"

namespace ocl {
namespace {

std::string names_of(c10::ArrayRef<ScalarType> types) {
  std::string text;
  for (const ScalarType type : types) {
    text += str(text.empty() ? "" : " or ", c10::getDtypeNames(type).first);
  }
  return text;
}

std::string describe(const at::Tensor& tensor) {
  return str("a tensor of ", c10::getDtypeNames(tensor.scalar_type()).first, ", shape ",
             tensor.sizes(), ", on ", tensor.device());
}

std::string describe(const KernelValue& value) {
  if (std::holds_alternative<std::monostate>(value)) return "None";
  if (const auto* tensor = std::get_if<at::Tensor>(&value)) return describe(*tensor);
  if (std::holds_alternative<LocalMemory>(value)) return "local memory";
  if (const auto* bytes = std::get_if<std::string>(&value)) return str(bytes->size(), " bytes");
  const auto& numbers = std::get<std::vector<at::Scalar>>(value);
  return numbers.size() == 1 ? str("the number ", number_text(numbers[0]))
                             : str(numbers.size(), " numbers");
}

}  // namespace

std::string UserArguments::what(size_t position) const {
  return str(kernel_.name, "(): argument ", position, " (", kernel_.arguments[position].text(),
             ")");
}

UserArguments::UserArguments(const KernelSignature& kernel, const std::vector<KernelValue>& values,
                             bool strided)
    : kernel_(kernel), values_(values) {
  std::string names;
  for (const KernelArgument& each : kernel.arguments) {
    names += str(names.empty() ? "" : ", ", each.name);
  }
  TORCH_CHECK_TYPE(values.size() == kernel.arguments.size(), kernel.name, "() takes ",
                   kernel.arguments.size(), " argument(s) (", names, "), got ", values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const KernelArgument& argument = kernel.arguments[i];
    if (const auto* tensor = std::get_if<at::Tensor>(&values[i])) {
      check_tensor(i, *tensor, strided);
      const bool writable = argument.space == KernelArgument::kGlobal && !argument.is_const;
      if (writable) own_memory(*tensor);
      tensors_.push_back({i, *tensor, *tensor, writable});
      continue;
    }
    const bool fits = [&] {
      switch (argument.space) {
        case KernelArgument::kLocal:
          return std::holds_alternative<LocalMemory>(values[i]);
        case KernelArgument::kPrivate:
          return std::holds_alternative<std::vector<at::Scalar>>(values[i]) ||
                 std::holds_alternative<std::string>(values[i]);
        default:
          return std::holds_alternative<std::monostate>(values[i]);
      }
    }();
    TORCH_CHECK_TYPE(fits, what(i), " must be ",
                     argument.space == KernelArgument::kLocal     ? "torch.ocl.LocalMemory(bytes)"
                     : argument.space == KernelArgument::kPrivate ? "a number, or a tuple of them"
                                                                  : "a tensor on ocl, or None",
                     ", not ", describe(values[i]));
  }
}

void UserArguments::check_tensor(size_t position, const at::Tensor& tensor, bool strided) const {
  const KernelArgument& argument = kernel_.arguments[position];
  const bool global =
      argument.space == KernelArgument::kGlobal || argument.space == KernelArgument::kConstant;
  TORCH_CHECK_TYPE(global, what(position), " cannot be ", describe(tensor),
                   argument.space == KernelArgument::kLocal
                       ? ": give torch.ocl.LocalMemory(bytes)"
                       : ": give a number; Tensor.item() is one");
  TORCH_CHECK_VALUE(on_ocl(tensor), what(position), " must be on ocl, but is ", describe(tensor));
  TORCH_CHECK_TYPE(tensor.layout() == at::kStrided && !tensor.is_quantized(), what(position),
                   " must be a dense tensor, not one of layout ", tensor.layout());
  TORCH_CHECK_TYPE(!tensor.unsafeGetTensorImpl()->is_python_dispatch(), what(position),
                   " has no memory of its own, as in a function that torch.compile traces: call "
                   "the kernel in an operator made with torch.library.custom_op");
  TORCH_CHECK_VALUE(tensors_.empty() || tensors_.front().tensor.device() == tensor.device(),
                    what(position), " is on ", tensor.device(), ", but argument ",
                    tensors_.empty() ? 0 : tensors_.front().position, " on ",
                    tensors_.empty() ? tensor.device() : tensors_.front().tensor.device());
  TORCH_CHECK_VALUE(!tensor.is_conj() && !tensor.is_neg(), what(position),
                    " is lazily conjugated or negated: pass x.resolve_conj().resolve_neg()");
  TORCH_CHECK_VALUE(strided || tensor.is_contiguous(), what(position), " is not contiguous (shape ",
                    tensor.sizes(), ", strides ", tensor.strides(),
                    "): pass x.contiguous(), or strided=True if the kernel knows the strides");
  check_operands(tensor);
  const UserType type = user_type(argument.type);
  if (type.types.empty()) return;  // void* and pointers to structs or typedefs take any tensor
  const auto& types = type.types;
  TORCH_CHECK_TYPE(std::find(types.begin(), types.end(), tensor.scalar_type()) != types.end(),
                   what(position), " must be a tensor of ", names_of(types), ", not ",
                   describe(tensor));
  TORCH_CHECK_VALUE(strided || tensor.nbytes() % type.bytes() == 0, what(position), " of ",
                    tensor.nbytes(), " bytes does not divide into elements of ", type.bytes(),
                    " bytes");
}

std::optional<DeviceIndex> UserArguments::device() const {
  if (tensors_.empty()) return std::nullopt;
  return static_cast<DeviceIndex>(tensors_.front().tensor.get_device());
}

std::optional<int64_t> UserArguments::first_numel() const {
  if (tensors_.empty()) return std::nullopt;
  return tensors_.front().tensor.numel();
}

// Whether both tensors have the same memory, so that one copy serves both.
bool UserArguments::same_memory(const TensorArgument& a, const TensorArgument& b) const {
  const auto bytes = [&](const TensorArgument& each) {
    return user_type(kernel_.arguments[each.position].type).bytes();
  };
  return a.tensor.const_data_ptr() == b.tensor.const_data_ptr() &&
         a.tensor.nbytes() == b.tensor.nbytes() && bytes(a) == bytes(b);
}

void UserArguments::check_overlap(const TensorArgument& copied) const {
  const auto range = [](const at::Tensor& tensor) {
    const auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
    return std::pair(begin, begin + extent_bytes(tensor));
  };
  const auto [begin, end] = range(copied.tensor);
  for (const TensorArgument& other : tensors_) {
    if (&other == &copied || other.tensor.numel() == 0) continue;
    const auto [other_begin, other_end] = range(other.tensor);
    const bool apart = end <= other_begin || other_end <= begin;
    TORCH_CHECK_VALUE(apart || same_memory(copied, other) || (!copied.writable && !other.writable),
                      what(copied.position), " overlaps argument ", other.position,
                      ", and the device takes no buffer from its address, so a copy would be "
                      "passed: pass x.clone(), or one tensor and offsets");
  }
}

// OpenCL passes buffers, not addresses, so a tensor is passed as a sub-buffer of its segment. A
// sub-buffer must begin at a multiple of the device's alignment. Blocks of the allocator do; for
// other views a copy is passed.
cl::Buffer UserArguments::buffer_of(Stream& stream, TensorArgument& argument) {
  if (argument.tensor.numel() == 0) return {};
  const UserType type = user_type(kernel_.arguments[argument.position].type);
  const size_t alignment = stream.device().handle().getInfo<CL_DEVICE_MEM_BASE_ADDR_ALIGN>() / 8;
  BufferView view = resolve(argument.tensor.const_data_ptr());
  const auto in_place = [&] {
    if (view.offset % alignment) return false;
    if (type.lanes == 1) return true;
    // The kernel expects vectors to be aligned to their size, but host memory may begin anywhere.
    const auto start = reinterpret_cast<uintptr_t>(view.segment->buffer.getInfo<CL_MEM_HOST_PTR>());
    return (start + view.offset) % type.bytes() == 0;
  };
  if (!in_place()) {
    check_overlap(argument);
    TORCH_CHECK_VALUE(argument.tensor.is_contiguous(), what(argument.position),
                      " does not begin at a multiple of ", alignment,
                      " bytes, so the device takes no buffer from its address, and is not "
                      "contiguous: pass x.contiguous()");
    for (const TensorArgument& earlier : tensors_) {
      if (&earlier == &argument) break;
      if (same_memory(earlier, argument)) argument.passed = earlier.passed;
    }
    if (argument.passed.is_same(argument.tensor)) argument.passed = argument.tensor.clone();
    view = resolve(argument.passed.const_data_ptr());
  }
  if (view.offset == 0) return view.segment->buffer;
  const cl_buffer_region region{view.offset, extent_bytes(argument.passed)};
  cl_int code = CL_SUCCESS;
  const cl_mem part = clCreateSubBuffer(view.buffer(), CL_MEM_READ_WRITE,
                                        CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
  if (code != CL_SUCCESS) raise(code, what(argument.position), "clCreateSubBuffer");
  return cl::Buffer(part);
}

void UserArguments::bind(Stream& stream, Arguments& arguments) {
  auto next = tensors_.begin();
  for (size_t i = 0; i < values_.size(); ++i) {
    if (next != tensors_.end() && next->position == i) {
      const cl::Buffer& buffer =
          buffers_.emplace_back(translated([&] { return str("cannot pass ", what(i)); },
                                           [&] { return buffer_of(stream, *next++); }));
      const cl_mem none = nullptr;
      buffer() ? arguments.add_buffer(buffer()) : arguments.add_bytes(&none, sizeof(none));
    } else if (const auto* local = std::get_if<LocalMemory>(&values_[i])) {
      arguments.add_bytes(nullptr, local->bytes);
    } else if (const auto* bytes = std::get_if<std::string>(&values_[i])) {
      arguments.add_bytes(bytes->data(), bytes->size());
    } else if (const auto* numbers = std::get_if<std::vector<at::Scalar>>(&values_[i])) {
      const std::string packed =
          pack_numbers(*numbers, kernel_.arguments[i].type, [&] { return what(i); });
      arguments.add_bytes(packed.data(), packed.size());
    } else {
      const cl_mem none = nullptr;
      arguments.add_bytes(&none, sizeof(none));
    }
  }
}

void UserArguments::launched(Stream& stream) {
  for (const TensorArgument& each : tensors_) {
    Allocator::instance().recordStream(each.tensor.storage().data_ptr(), stream.unpack());
    if (!each.writable) continue;
    if (!each.passed.is_same(each.tensor)) {
      each.tensor.copy_(each.passed.view(each.tensor.scalar_type()).view_as(each.tensor));
    } else if (!each.tensor.is_inference()) {
      each.tensor.unsafeGetTensorImpl()->bump_version();  // as in-place operators do
    }
  }
}

}  // namespace ocl
