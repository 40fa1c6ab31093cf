// Copies: within a device by a kernel, between host and device by maps or transfers, between
// devices through the host. Also item().
#include <ATen/ops/_conj.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/real.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "backend/base/error.h"
#include "backend/memory/host_allocator.h"
#include "backend/memory/storage.h"
#include "backend/memory/transfer.h"
#include "backend/queue/capture.h"
#include "kernels/core/operators/operands.h"
#include "kernels/core/tensors/host_view.h"
#include "kernels/core/tensors/lazy_clone.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/float8.h"
#include "kernels/pointwise/pointwise.h"
#include "kernels/tensor/transpose.h"

namespace ocl {
namespace {

constexpr PointwiseOp kCopy{"copy", "a", kConverts, "a"};
// Sets each byte of a word that is not 0 to 1.
constexpr PointwiseOp kCopyBools{
    "copy_bools",
    "AS(int, ((((AS(uint, a) & 0x7f7f7f7fu) + 0x7f7f7f7fu) | AS(uint, a)) >> 7) & 0x01010101u)",
    kIntegral};

bool needs_host(const Device& device, ScalarType type) {
  const bool has_type = has_complex_kernel_type(type) || is_float8(type);
  return !has_type || (is_double(type) && !device.properties().has_fp64);
}

void copy_mapped(const at::Tensor& destination, const at::Tensor& source) {
  HostViews views;
  if (on_ocl(source)) views.add(source, MapAccess::kRead);
  if (on_ocl(destination)) {
    const bool whole = destination.is_non_overlapping_and_dense();
    views.add(destination, whole ? MapAccess::kDiscardAndWrite : MapAccess::kReadWrite);
  }
  const at::Tensor from = on_ocl(source) ? views.view(source) : source;
  const at::Tensor to = on_ocl(destination) ? views.view(destination) : destination;
  to.copy_(from);
  views.write_back();
}

void copy_by_kernel(const at::Tensor& destination, const at::Tensor& source,
                    const PointwiseOp& op = kCopy) {
  auto iter = at::TensorIteratorConfig()
                  .add_output(destination)
                  .add_const_input(source)
                  .resize_outputs(false)
                  .check_all_same_dtype(false)
                  .check_all_same_device(true)
                  .build();
  // A bool may be a view of a byte other than 0 and 1; a copy must not keep it.
  const bool keeps_bits = source.scalar_type() != ScalarType::Bool && op.name == kCopy.name;
  if (keeps_bits && copy_transposed(iter)) return;
  pointwise(iter, op, {}, source.scalar_type());
}

constexpr int64_t kManyElements = 65536;  // from here on, two more views cost less than they save

// Whether rows of small elements can be moved as four-byte words. Memory from other code may be
// unaligned.
bool in_words(const at::Tensor& tensor) {
  const auto size = static_cast<int64_t>(tensor.element_size());
  if (size > 2 || tensor.numel() < kManyElements || tensor.stride(-1) != 1) return false;
  const auto divides = [size](int64_t elements) { return elements * size % 4 == 0; };
  return divides(tensor.size(-1)) &&
         reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % sizeof(int32_t) == 0 &&
         std::all_of(tensor.strides().begin(), tensor.strides().end() - 1, divides);
}

void copy_within_device(const at::Tensor& destination, const at::Tensor& source) {
  const ScalarType from = source.scalar_type(), to = destination.scalar_type();
  if (from != to) {
    const Device& device = ocl_device(source);
    if (needs_host(device, from) || needs_host(device, to)) {
      return copy_mapped(destination, source);
    }
    if (source.is_complex() && to == ScalarType::Bool) {
      at::ne_out(const_cast<at::Tensor&>(destination), source, 0);
      return;
    }
    if (is_float8(from) && is_float8(to)) {
      return copy_by_kernel(destination, source.to(ScalarType::Float));
    }
    const bool drops_imaginary = source.is_complex() && !destination.is_complex();
    return copy_by_kernel(destination, drops_imaginary ? at::real(source) : source);
  }
  if (source.element_size() > 8) {
    TORCH_CHECK_NOT_IMPLEMENTED(source.is_complex(), "ocl cannot copy tensors of type ", from);
    return copy_by_kernel(at::view_as_real(destination).view(ScalarType::Long),
                          at::view_as_real(source).view(ScalarType::Long));
  }
  if (from == to && in_words(destination) && in_words(source)) {
    const PointwiseOp& op = from == ScalarType::Bool ? kCopyBools : kCopy;
    return copy_by_kernel(destination.view(ScalarType::Int), source.view(ScalarType::Int), op);
  }
  // Moves float16 and bfloat16 as bits: a conversion through float32 would make NaNs quiet.
  const bool as_number =
      has_kernel_type(from) && from != ScalarType::Double && !c10::isReducedFloatingType(from);
  if (as_number) return copy_by_kernel(destination, source);
  const ScalarType bits = bits_type(source.element_size());
  copy_by_kernel(destination.view(bits), source.view(bits));
}

bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.strides() == b.strides() &&
         a.is_non_overlapping_and_dense() && b.is_non_overlapping_and_dense();
}

// Keeps host memory alive for the copy that the stream enqueues or records next. Returns false if
// the memory is not from the allocator of pinned memory.
bool hold_pinned(Stream& stream, const at::Tensor& host) {
  if (stream.captured()) {
    keep_in_graph(stream, hold_storage(host.storage()));
    return true;
  }
  return record_pinned(host.const_data_ptr(), host.storage().data_ptr().get_context(),
                       stream.unpack());
}

// Copies to or from pinned memory without blocking. Returns false if the host memory is not pinned
// by the allocator, or the layouts differ.
bool copy_pinned(const at::Tensor& destination, const at::Tensor& source) {
  const at::Tensor& host = on_ocl(source) ? destination : source;
  if (!same_layout(destination, source) || !is_pinned(host.const_data_ptr())) return false;
  const at::Tensor& tensor = on_ocl(source) ? source : destination;
  Stream& stream = stream_of(tensor);
  // Holds the memory before the copy, which may raise after it was enqueued.
  if (!hold_pinned(stream, host)) return false;
  cl::Event event;
  if (on_ocl(source)) {
    copy_to_host(stream, host.mutable_data_ptr(), view(tensor), tensor.nbytes(), &event);
  } else {
    copy_to_device(stream, view(tensor), host.const_data_ptr(), tensor.nbytes(), &event);
  }
  return true;
}

// For devices with their own memory: one transfer of dense bytes. Layout and type are converted on
// the side whose data is dense.
void copy_discrete(const at::Tensor& destination, const at::Tensor& source) {
  if (on_ocl(source)) {
    // This device cannot write memory of PyTorch's other devices.
    const bool host_memory = destination.is_cpu();
    const bool same = host_memory && same_layout(destination, source);
    const at::Tensor dense = same ? source : source.contiguous();
    const bool direct = same || (host_memory && destination.is_contiguous() &&
                                 destination.scalar_type() == source.scalar_type());
    const at::Tensor host =
        direct ? destination : at::empty(source.sizes(), source.options().device(at::kCPU));
    copy_to_host(stream_of(dense), host.mutable_data_ptr(), view(dense), dense.nbytes());
    if (!direct) destination.copy_(host);
    return;
  }
  const at::Tensor typed = source.to(at::kCPU, destination.scalar_type());
  const bool same = same_layout(destination, typed);
  const at::Tensor host = same ? typed : typed.contiguous();
  const bool direct = same || destination.is_contiguous();
  const at::Tensor dense = direct ? destination : at::empty(source.sizes(), destination.options());
  Stream& stream = stream_of(dense);
  copy_to_device(stream, view(dense), host.const_data_ptr(), host.nbytes());
  if (direct) return;
  copy_within_device(destination, dense);
  stream.drain();  // so that other streams may read the result, too
}

// The same tensor without the bits for lazy conjugation and negation.
at::Tensor physical(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.is_conj() ? at::_conj(tensor) : tensor;
  return plain.is_neg() ? at::_neg_view(plain) : plain;
}

bool is_lazy(const at::Tensor& tensor) { return tensor.is_conj() || tensor.is_neg(); }

// Copies the stored numbers, then conjugates or negates them in the destination.
void copy_lazy(const at::Tensor& destination, const at::Tensor& source) {
  if (source.is_neg() && source.scalar_type() != destination.scalar_type()) {
    destination.copy_(source.resolve_neg());  // the stored number may not fit into the other type
    return;
  }
  const at::Tensor target = physical(destination);
  target.copy_(physical(source));
  if (target.is_complex() && source.is_conj() != destination.is_conj()) {
    at::view_as_real(target).select(-1, 1).neg_();
  }
  if (source.is_neg() != destination.is_neg() && target.scalar_type() != at::kBool) target.neg_();
}

at::Tensor copy_from(const at::Tensor& source_any, const at::Tensor& destination,
                     bool non_blocking) {
  const at::Tensor source = source_any.expand_as(destination);
  if (destination.numel() == 0 || source.is_same(destination)) return destination;
  check_operands(destination, source);
  own_memory(destination);
  if (is_lazy(source) || is_lazy(destination)) {
    copy_lazy(destination, source);
    return destination;
  }
  if (on_ocl(source) && on_ocl(destination)) {
    if (source.device() == destination.device()) {
      copy_within_device(destination, source);
    } else {
      copy_mapped(destination, source);
    }
    return destination;
  }
  const Device& device = ocl_device(on_ocl(source) ? source : destination);
  if (non_blocking && copy_pinned(destination, source)) return destination;
  if (device.uses_host_memory()) {
    copy_mapped(destination, source);
  } else {
    copy_discrete(destination, source);
  }
  return destination;
}

at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& destination) {
  destination.resize_(source.sizes());
  return copy_from(source, destination, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  TORCH_CHECK(self.numel() > 0, "_local_scalar_dense: Empty tensor not supported");
  check_operands(self);
  const at::Tensor host = at::empty({}, self.options().device(at::kCPU));
  copy_to_host(stream_of(self), host.mutable_data_ptr(), view(self), self.element_size());
  return at::_local_scalar_dense(host);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar_dense);
}

// Replaces PyTorch's handling of lazy tensors, which clones them and so calls _copy_from again.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

}  // namespace
}  // namespace ocl
