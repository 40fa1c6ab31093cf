#include "distributed/backend.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <set>

#include "backend/base/unlocked_wait.h"

namespace ocl {
namespace {

using c10d::OpType;
using c10d::ReduceOp;

void check(const Operation& operation, const at::Tensor& tensor) {
  if (operation.type == OpType::_ALLREDUCE_SPARSE) return;
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == c10::kStrided, "occl does not support ",
                              c10d::opTypeToString(operation.type), " of tensors of layout ",
                              tensor.layout());
  const bool whole = operation.type == OpType::ALLREDUCE || operation.type == OpType::BROADCAST;
  TORCH_CHECK_VALUE(whole ? tensor.is_non_overlapping_and_dense() : tensor.is_contiguous(),
                    "occl: tensors of ", c10d::opTypeToString(operation.type),
                    " must be contiguous, got sizes ", tensor.sizes(), " with strides ",
                    tensor.strides());
  const Tensors& others = operation.reads.empty() ? operation.writes.front() : operation.reads;
  TORCH_CHECK_TYPE(tensor.scalar_type() == others.front().scalar_type(), "occl: tensors of ",
                   c10d::opTypeToString(operation.type), " must have one type, got ",
                   others.front().scalar_type(), " and ", tensor.scalar_type());
}

// Whether a collective can start without waiting; starting it then takes some microseconds.
bool starts_at_once(const Operation& operation, const std::vector<StagingStream>& streams) {
  constexpr size_t kMostBytes = 1 << 16;  // some devices copy them to the host
  constexpr size_t kMostTensors = 16;     // each is mapped by a call
  if (operation.type == OpType::_ALLREDUCE_SPARSE) return false;
  size_t bytes = 0, tensors = 0;
  const auto count = [&](const Tensors& some) {
    tensors += some.size();
    for (const at::Tensor& tensor : some) bytes += tensor.nbytes();
  };
  count(operation.reads);
  for (const Tensors& some : operation.writes) count(some);
  // Does not call Event::over(), which would note a failure for the stream: the work raises it.
  return bytes <= kMostBytes && tensors <= kMostTensors &&
         std::all_of(streams.begin(), streams.end(), [](const StagingStream& each) {
           return execution_status(each.ready.handle()) == CL_COMPLETE;
         });
}

}  // namespace

int64_t simplify(c10d::ReduceOp& op, const Tensors& tensors, int size) {
  if (!tensors.empty() && !tensors[0].is_sparse() && tensors[0].scalar_type() == at::kBool) {
    if (op.op_ == ReduceOp::SUM) op = ReduceOp::MAX;
    if (op.op_ == ReduceOp::PRODUCT) op = ReduceOp::MIN;
  }
  if (op.op_ != ReduceOp::AVG) return 1;
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK_TYPE(tensor.scalar_type() != at::kBool, "ReduceOp.AVG of tensors of bool");
  }
  op = ReduceOp::SUM;
  return size;
}

bool same_sizes(const Tensors& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& tensor) {
    return tensor.numel() == tensors.front().numel();
  });
}

Tensors on_host(const Staging& staging, const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& tensor : tensors) result.push_back(staging.host(tensor));
  return result;
}

at::Tensor bytes_on_host(const Staging& staging, const at::Tensor& tensor) {
  const at::Tensor host = staging.host(tensor);
  return at::from_blob(host.mutable_data_ptr(), {static_cast<int64_t>(host.nbytes())}, at::kByte);
}

Tensors bytes_on_host(const Staging& staging, const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& tensor : tensors) result.push_back(bytes_on_host(staging, tensor));
  return result;
}

TensorLists bytes_on_host(const Staging& staging, const TensorLists& lists) {
  TensorLists result;
  for (const Tensors& tensors : lists) result.push_back(bytes_on_host(staging, tensors));
  return result;
}

OcclBackend::OcclBackend(BackendPointer gloo)
    : Backend(gloo->getRank(), gloo->getSize()), gloo_(std::move(gloo)) {
  init();
}

OcclBackend::~OcclBackend() {
  // Without Python's lock: both destructors join threads that need the lock to release tensors.
  wait_unlocked([&] {
    issuer_.reset();
    gloo_.reset();
  });
}

BackendPointer make_distributed_backend(const BackendPointer& gloo) {
  return c10::make_intrusive<OcclBackend>(gloo);
}

uint64_t OcclBackend::getSequenceNumberForGroup() {
  issuer_->drain();
  return gloo_->getSequenceNumberForGroup();
}

void OcclBackend::shutdown() {
  issuer_->drain();
  gloo_->shutdown();
}

void OcclBackend::startCoalescing() {
  coalesced_.emplace();  // drops a list that an error left unfinished
}

WorkPointer OcclBackend::endCoalescing() {
  TORCH_CHECK(coalesced_, "occl: endCoalescing without startCoalescing");
  auto work = c10::make_intrusive<CoalescedWork>(rank_, std::move(*coalesced_));
  coalesced_.reset();
  return work;
}

WorkPointer OcclBackend::post(Operation operation) {
  std::set<DeviceIndex> devices;
  const auto note = [&](const at::Tensor& tensor) {
    check(operation, tensor);
    if (on_ocl_device(tensor)) devices.insert(tensor.device().index());
  };
  Staging staging;
  for (const at::Tensor& tensor : operation.reads) {
    note(tensor);
    staging.read(tensor);
  }
  for (const Tensors& tensors : operation.writes) {
    for (const at::Tensor& tensor : tensors) {
      note(tensor);
      staging.write(tensor);
    }
  }

  std::vector<StagingStream> streams;
  for (const DeviceIndex device : devices) {
    current_stream(device).refuse_capture("start a collective");
    streams.push_back({side_stream(device), Event()});
    streams.back().ready.record(current_stream(device));
  }
  record_use(operation.reads);
  for (const Tensors& tensors : operation.writes) record_use(tensors);
  const bool message = c10d::isP2POp(operation.type);
  MemoryRanges memory = message ? MemoryRanges{} : staging.memory();
  const bool at_once = !message && !compares_ && starts_at_once(operation, streams);
  auto work = c10::make_intrusive<StagedWork>(rank_, std::move(operation), std::move(staging),
                                              std::move(streams));
  auto start = [work](Issuer::Hold hold) mutable {
    work->start(std::move(hold));
    Release::of(std::move(work));
  };
  if (message) {
    issuer_->submit_message(std::move(start));
  } else {
    issuer_->submit_collective(std::move(memory), std::move(start), at_once);
  }
  if (coalesced_) coalesced_->push_back(work);
  return work;
}

c10::Stream OcclBackend::side_stream(DeviceIndex device) {
  std::lock_guard lock(side_streams_mutex_);
  const auto found = side_streams_.find(device);
  if (found != side_streams_.end()) return found->second;
  return side_streams_.emplace(device, staging_stream(device)).first->second;
}

// The allocator must not reuse the memory before the staging stream has unmapped it.
void OcclBackend::record_use(const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (!on_ocl_device(tensor) || tensor.is_sparse() || tensor.numel() == 0) continue;
    const c10::impl::VirtualGuardImpl guard(tensor.device().type());
    guard.recordDataPtrOnStream(tensor.storage().data_ptr(), side_stream(tensor.device().index()));
  }
}

}  // namespace ocl
