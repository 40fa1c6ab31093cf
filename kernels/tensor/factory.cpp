// The operators that every other operator needs: empty, empty_strided, resize_, set_ and the views.
#include "kernels/tensor/factory.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <algorithm>

#include "backend/memory/allocator.h"
#include "backend/memory/storage.h"
#include "kernels/core/tensors/tensors.h"

namespace ocl {
namespace {

constexpr c10::DispatchKeySet kKeySet(c10::DispatchKey::PrivateUse1);

c10::Device device_or_current(std::optional<c10::Device> device) {
  if (device && device->has_index()) return *device;
  return {c10::DeviceType::PrivateUse1, current_device()};
}

at::TensorBase make_empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype,
                          std::optional<c10::Device> device, std::optional<bool> pin_memory,
                          std::optional<at::MemoryFormat> format) {
  TORCH_CHECK_VALUE(!pin_memory.value_or(false), "only CPU tensors can be pinned, not ocl tensors");
  const c10::DeviceGuard guard(device_or_current(device));
  return at::detail::empty_generic(size, &Allocator::instance(), kKeySet,
                                   c10::dtype_or_default(dtype), format);
}

at::TensorBase make_empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride,
                                  std::optional<at::ScalarType> dtype,
                                  std::optional<c10::Device> device,
                                  std::optional<bool> pin_memory) {
  TORCH_CHECK_VALUE(!pin_memory.value_or(false), "only CPU tensors can be pinned, not ocl tensors");
  const c10::DeviceGuard guard(device_or_current(device));
  return at::detail::empty_strided_generic(size, stride, &Allocator::instance(), kKeySet,
                                           c10::dtype_or_default(dtype));
}

// Whether to fill new memory (torch.utils.deterministic.fill_uninitialized_memory).
bool fills_memory() {
  const at::Context& context = at::globalContext();
  return context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory();
}

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<c10::Device> device,
                 std::optional<bool> pin_memory, std::optional<at::MemoryFormat> format) {
  at::Tensor result(make_empty(size, dtype, device, pin_memory, format));
  if (C10_UNLIKELY(fills_memory())) at::native::fill_empty_deterministic_(result);
  return result;
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  at::Tensor result(make_empty_strided(size, stride, dtype, device, pin_memory));
  if (C10_UNLIKELY(fills_memory())) at::native::fill_empty_deterministic_(result);
  return result;
}

// Grows the storage and keeps its bytes, as at::native::resize_ does on the CPU. If it cannot grow,
// the tensor is not changed.
const at::Tensor& resize_(const at::Tensor& self, c10::SymIntArrayRef sym_size,
                          std::optional<at::MemoryFormat> format) {
  const c10::IntArrayRef size = C10_AS_INTARRAYREF_SLOW(sym_size);
  at::TensorImpl* impl = self.unsafeGetTensorImpl();
  const auto old_bytes = static_cast<int64_t>(self.storage().nbytes());
  if (self.sizes() != size) {
    at::detail::check_size_nonnegative(size);
    const size_t bytes = at::detail::computeStorageNbytesContiguous(
        size, self.dtype().itemsize(), static_cast<size_t>(self.storage_offset()));
    const bool empty = std::find(size.begin(), size.end(), 0) != size.end();
    if (!empty && bytes > self.storage().nbytes()) {
      resize_storage(self.storage(), bytes, NewBytes::kAny);
    }
    impl->set_sizes_contiguous(size);
  }
  if (format) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve, "Unsupported memory format", *format);
    impl->empty_tensor_restride(*format);
  }
  if (C10_UNLIKELY(fills_memory())) at::native::fill_resize_deterministic_(self, old_bytes);
  return self;
}

at::Tensor& set_source(at::Tensor& self, at::Storage source) {
  const auto size = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return self.set_(std::move(source), 0, {size}, {});
}

at::Tensor& set_source_sizes(at::Tensor& self, at::Storage source, int64_t offset,
                             c10::IntArrayRef size, c10::IntArrayRef stride) {
  // Tries on another tensor first, so that this one is not changed if the storage cannot grow.
  at::Tensor trial(alias(*self.unsafeGetTensorImpl()));
  at::TensorImpl& found = *trial.unsafeGetTensorImpl();
  at::native::checkSetStorage(trial, std::move(source), offset, size, stride);
  found.set_storage_offset(offset);
  const auto strides = stride.data() ? std::optional<c10::IntArrayRef>(stride) : std::nullopt;
  at::native::resize_impl_cpu_(&found, size, strides, /*resize_storage=*/false);
  const size_t bytes = at::detail::computeStorageNbytes(size, trial.strides(), trial.itemsize(),
                                                        static_cast<size_t>(offset));
  if (trial.numel() > 0 && bytes > trial.storage().nbytes()) {
    resize_storage(trial.storage(), bytes, NewBytes::kZero);
  }
  at::TensorImpl& impl = *self.unsafeGetTensorImpl();
  impl.set_storage_keep_dtype(trial.storage());
  impl.set_storage_offset(offset);
  impl.set_sizes_and_strides(trial.sizes(), trial.strides());
  return self;
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  Allocator::instance().recordStream(self.storage().data_ptr(), stream);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("resize_", &resize_);
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("set_.source_Storage", &set_source);
  m.impl("set_.source_Storage_storage_offset", &set_source_sizes);
  m.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
  m.impl("record_stream", &record_stream);
}

}  // namespace

at::TensorBase empty_tensor(c10::IntArrayRef size, const c10::TensorOptions& options) {
  return make_empty(size, c10::optTypeMetaToScalarType(options.dtype_opt()), options.device_opt(),
                    options.pinned_memory_opt(), options.memory_format_opt());
}

at::TensorBase empty_strided_tensor(c10::IntArrayRef size, c10::IntArrayRef stride,
                                    const c10::TensorOptions& options) {
  return make_empty_strided(size, stride, c10::optTypeMetaToScalarType(options.dtype_opt()),
                            options.device_opt(), options.pinned_memory_opt());
}

}  // namespace ocl
