#include "kernels/user/interop.h"

#include <ATen/DLConvertor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/safe_numerics.h>

#include "backend/base/error.h"
#include "backend/memory/allocator.h"
#include "backend/memory/storage.h"
#include "kernels/core/operators/operands.h"
#include "kernels/core/tensors/lazy_clone.h"
#include "kernels/core/tensors/tensors.h"

namespace ocl {
namespace {

// Bytes from the first element to the end of the last; ValueError for negative strides.
size_t reach(const Layout& layout) {
  TORCH_CHECK_VALUE(!layout.strides || layout.strides->size() == layout.sizes.size(),
                    layout.strides ? layout.strides->size() : 0, " strides were given for ",
                    layout.sizes.size(), " sizes");
  int64_t last = 0, dense = 1;
  bool empty = false;
  for (size_t d = layout.sizes.size(); d-- > 0;) {
    const int64_t size = layout.sizes[d], stride = layout.strides ? (*layout.strides)[d] : dense;
    TORCH_CHECK_VALUE(size >= 0 && stride >= 0, "sizes and strides must not be negative, got size ",
                      size, " and stride ", stride);
    empty |= size == 0;
    int64_t step = 0;
    TORCH_CHECK_VALUE(!__builtin_mul_overflow(std::max<int64_t>(size - 1, 0), stride, &step) &&
                          !__builtin_add_overflow(last, step, &last) &&
                          !__builtin_mul_overflow(dense, std::max<int64_t>(size, 1), &dense),
                      "the sizes ", layout.sizes, " are too large");
  }
  uint64_t bytes = 0;
  TORCH_CHECK_VALUE(empty || !c10::mul_overflows(static_cast<uint64_t>(last) + 1,
                                                 c10::elementSize(layout.type), &bytes),
                    "the sizes ", layout.sizes, " of ", layout.type, " are too large");
  return bytes;
}

at::Tensor make_tensor(ExternalMemory memory, const Layout& layout) {
  const size_t needed = reach(layout);
  TORCH_CHECK_VALUE(needed <= memory.bytes, "a tensor of sizes ", layout.sizes, " and ",
                    layout.type, " needs ", needed, " bytes, but the memory has ", memory.bytes,
                    " from the offset on");
  const c10::Device device = memory.data.device();
  const c10::DeviceGuard guard(device);
  const c10::Storage storage(c10::Storage::use_byte_size_t(), memory.bytes, std::move(memory.data),
                             /*allocator=*/nullptr, /*resizable=*/false);
  at::Tensor tensor = at::empty({0}, at::TensorOptions().dtype(layout.type).device(device));
  if (layout.strides) return tensor.set_(storage, 0, layout.sizes, *layout.strides);
  return tensor.set_(storage, 0, layout.sizes);
}

}  // namespace

at::Tensor tensor_of_buffer(std::optional<DeviceIndex> index, cl_mem buffer, size_t offset,
                            const Layout& layout, std::function<void()> release) {
  TORCH_CHECK_VALUE(offset % c10::elementSize(layout.type) == 0, "the offset of ", offset,
                    " bytes is no multiple of the ", c10::elementSize(layout.type), " bytes of ",
                    layout.type);
  Device* const wanted = index ? &device(*index) : nullptr;
  return make_tensor(wrap_buffer(wanted, buffer, offset, std::move(release)), layout);
}

at::Tensor tensor_of_host(const at::Tensor& host, DeviceIndex index) {
  TORCH_CHECK_VALUE(host.is_cpu() && host.layout() == at::kStrided && !host.is_quantized(),
                    "from_host needs a dense CPU tensor or NumPy array, got a tensor of layout ",
                    host.layout(), " on ", host.device());
  TORCH_CHECK_VALUE(host.is_non_overlapping_and_dense(),
                    "from_host needs memory without gaps, got "
                    "strides ",
                    host.strides(), " for sizes ", host.sizes(),
                    ": pass x.contiguous(), which is a copy, or use Tensor.to()");
  TORCH_CHECK_VALUE(!host.requires_grad() && !host.is_conj() && !host.is_neg(),
                    "from_host needs plain memory: pass x.detach().resolve_conj().resolve_neg()");
  const Layout layout{host.sizes().vec(), host.strides().vec(), host.scalar_type()};
  if (host.numel() == 0) {
    const c10::Device where(c10::DeviceType::PrivateUse1, index);
    return at::empty(host.sizes(), host.options().device(where));
  }
  c10::Storage storage = host.storage();
  storage.unsafeGetStorageImpl()->set_resizable(false);
  void* const data = host.data_ptr();
  return make_tensor(wrap_host(device(index), data, host.nbytes(),
                               [kept = std::move(storage)]() mutable { kept = {}; }),
                     layout);
}

HostMap::HostMap(const at::Tensor& tensor, bool writable)
    : tensor_(alias(*tensor.unsafeGetTensorImpl())), writable_(writable) {
  TORCH_CHECK_VALUE(on_ocl(tensor_) && tensor_.layout() == at::kStrided && !tensor_.is_quantized(),
                    "host_view needs a dense tensor on ocl, got one of layout ", tensor_.layout(),
                    " on ", tensor_.device());
  const Device& device = ocl_device(tensor_);
  TORCH_CHECK_VALUE(device.properties().host_unified_memory, device.label(),
                    " has memory of its own, which the host sees as a copy only: use x.cpu()");
  TORCH_CHECK_VALUE(!tensor_.is_conj() && !tensor_.is_neg(),
                    "host_view: the tensor is lazily conjugated or negated: pass "
                    "x.resolve_conj().resolve_neg()");
  TORCH_CHECK_VALUE(!writable || !tensor.requires_grad(),
                    "host_view: writing to a tensor that requires grad is not seen by autograd: "
                    "pass x.detach(), or writable=False");
}

at::Tensor HostMap::enter() {
  TORCH_CHECK(!views_, "the host view is open already");
  if (writable_) own_memory(tensor_);
  auto views = std::make_shared<HostViews>();
  views->add(tensor_, writable_ ? MapAccess::kReadWrite : MapAccess::kRead);
  const at::Tensor mapped = views->view(tensor_);
  views_ = views;
  hold_ = hold_storage(tensor_.storage());
  if (writable_ && !tensor_.is_inference()) tensor_.unsafeGetTensorImpl()->bump_version();
  return at::from_blob(
      mapped.data_ptr(), mapped.sizes(), mapped.strides(),
      // The array may outlive this view; then it still shows the tensor's memory, or the copy.
      [hold = hold_, views](void*) {}, mapped.options());
}

void HostMap::exit() {
  const StorageHold hold = std::move(hold_);
  if (const auto views = std::move(views_)) views->write_back();
}

namespace {

struct Exported {
  StorageHold memory;
  std::vector<int64_t> sizes, strides;
  DLManagedTensor managed{};
};

}  // namespace

DLManagedTensor* to_dlpack(const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(on_ocl(tensor), "expected a tensor on ocl, got one on ", tensor.device());
  auto exported = std::make_unique<Exported>();
  exported->sizes = tensor.sizes().vec();
  exported->strides = tensor.strides().vec();
  DLTensor& dl = exported->managed.dl_tensor;
  if (tensor.numel() > 0) {
    own_memory(tensor);
    check_operands(tensor);
    exported->memory = hold_storage(tensor.storage());
    const BufferView memory = view(tensor);
    dl.data = memory.buffer();
    dl.byte_offset = memory.offset;
    stream_of(tensor).finish();
  }
  dl.device = {kDLOpenCL, static_cast<int32_t>(tensor.get_device())};
  dl.ndim = static_cast<int32_t>(tensor.dim());
  dl.dtype = at::getDLDataType(tensor);
  dl.shape = exported->sizes.data();
  dl.strides = exported->strides.data();
  exported->managed.manager_ctx = exported.get();
  exported->managed.deleter = [](DLManagedTensor* self) {
    delete static_cast<Exported*>(self->manager_ctx);
  };
  return &exported.release()->managed;
}

void check_foreign(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return;
  const size_t needed = extent_bytes(tensor), has = Allocator::instance().bytes_from(view(tensor));
  TORCH_CHECK_VALUE(needed <= has, "a tensor of sizes ", tensor.sizes(), " and ",
                    tensor.scalar_type(), " needs ", needed, " bytes, but the memory has ", has);
}

at::Tensor from_dlpack(DLManagedTensor* managed, std::optional<DeviceIndex> device) {
  std::shared_ptr<DLManagedTensor> owner(managed, [](DLManagedTensor* taken) {
    if (taken->deleter) taken->deleter(taken);
  });
  const DLTensor& dl = managed->dl_tensor;
  TORCH_CHECK_VALUE(dl.device.device_type == kDLOpenCL,
                    "expected a DLPack tensor of OpenCL (4), got device type ",
                    int{dl.device.device_type});
  TORCH_CHECK_VALUE(dl.ndim == 0 || (dl.ndim > 0 && dl.shape), "the DLPack tensor has ", dl.ndim,
                    " dimensions and ", dl.shape ? "a" : "no", " shape");
  Layout layout{{dl.shape, dl.shape + dl.ndim}, std::nullopt, at::toScalarType(dl.dtype)};
  if (dl.strides) layout.strides.emplace(dl.strides, dl.strides + dl.ndim);
  if (!dl.data || reach(layout) == 0) {
    const c10::Device where(c10::DeviceType::PrivateUse1, device.value_or(current_device()));
    return at::empty(layout.sizes, at::TensorOptions().dtype(layout.type).device(where));
  }
  return tensor_of_buffer(device, static_cast<cl_mem>(dl.data), dl.byte_offset, layout,
                          [owner]() mutable { owner.reset(); });
}

}  // namespace ocl
