// The c10d backend "occl": collectives of ocl tensors by Gloo, on mapped memory.
//
// Python makes Gloo's group (torch_ocl/distributed.py), because PyTorch's packages do not contain
// Gloo's headers. The caller's thread checks a collective and records an event on its stream. The
// issuing thread waits for the event, maps the memory and starts Gloo's collective; at its end the
// memory is unmapped (work.h). The caller continues to enqueue kernels meanwhile.
//
// These virtuals of c10d::Backend are not overridden: split and merge, which torch.distributed
// calls only through NCCL's interface, and those that only NCCL has (shrink, completion hooks,
// waitForPendingWorks, getMemAllocator, allocateTensor, suspend, resume, getMemoryStats, getError;
// eagerConnectSingleDevice does nothing, because Gloo connects when it is made).
#pragma once

#include <torch/csrc/distributed/c10d/debug.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <map>
#include <mutex>
#include <optional>

#include "backend/base/torch_version.h"
#include "distributed/issuer.h"
#include "distributed/work.h"

namespace ocl {

using BackendPointer = c10::intrusive_ptr<c10d::Backend>;
using TensorLists = std::vector<Tensors>;

class OcclBackend final : public c10d::Backend {
 public:
  explicit OcclBackend(BackendPointer gloo);
  ~OcclBackend() override;

  const std::string getBackendName() const override { return "occl"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return gloo_->getBackendOptions(); }
  void setTimeout(std::chrono::milliseconds timeout) override { gloo_->setTimeout(timeout); }
  void setSequenceNumberForGroup() override { gloo_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override;
  void enableCollectivesTiming() override { gloo_->enableCollectivesTiming(); }
  void abort() override { gloo_->abort(); }
  void shutdown() override;

  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  WorkPointer endCoalescing() override;

  // Collectives that Gloo has (collectives.cpp).
  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& given) override;
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& given) override;
  WorkPointer allgather(TensorLists& outputs, Tensors& inputs,
                        const c10d::AllgatherOptions& options) override;
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options) override;
  WorkPointer gather(TensorLists& outputs, Tensors& inputs,
                     const c10d::GatherOptions& options) override;
  WorkPointer scatter(Tensors& outputs, TensorLists& inputs,
                      const c10d::ScatterOptions& options) override;
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<int64_t>& output_sizes, std::vector<int64_t>& input_sizes,
                            const c10d::AllToAllOptions& options) override;
  WorkPointer send(Tensors& tensors, int destination, int tag) override;
  WorkPointer recv(Tensors& tensors, int source, int tag) override;
  WorkPointer recvAnysource(Tensors& tensors, int tag) override;
  WorkPointer barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  // Sparse tensors (sparse.cpp).
  WorkPointer allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;

  // Collectives that are made of other collectives (composed.cpp).
  WorkPointer allreduce_coalesced(Tensors& tensors,
                                  const c10d::AllreduceCoalescedOptions& options) override;
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) override;
  WorkPointer reduce_scatter(Tensors& outputs, TensorLists& inputs,
                             const c10d::ReduceScatterOptions& options) override;
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override;
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& options) override;
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs,
                       const c10d::AllToAllOptions& options) override;
#if OCL_HAS_GATHER_SINGLE
  WorkPointer gather_single(at::Tensor& output, at::Tensor& input,
                            const c10d::GatherOptions& options) override;
#endif

 private:
  // Checks the operation, records events on the caller's streams, and submits the rest to the
  // issuing thread.
  WorkPointer post(Operation operation);
  template <typename Given>
  WorkPointer post_lists(c10d::OpType type,
                         WorkPointer (c10d::Backend::*collective)(TensorLists&, Tensors&,
                                                                  const Given&),
                         const TensorLists& outputs, const Tensors& inputs, const Given& options);
  WorkPointer reduce_parts(c10d::OpType type, const at::Tensor& output, const Tensors& inputs,
                           c10d::ReduceScatterOptions options);
  c10::Stream side_stream(c10::DeviceIndex device);
  void record_use(const Tensors& tensors);

  BackendPointer gloo_;
  // Whether TORCH_DISTRIBUTED_DEBUG was DETAIL when the group was made. PyTorch then compares the
  // calls of the ranks, but not the sizes and types of all-to-all: compare_exchange() does.
  const bool compares_ = c10d::debug_level() == c10d::DebugLevel::Detail;
  std::mutex side_streams_mutex_;  // guards the member below
  std::map<c10::DeviceIndex, c10::Stream> side_streams_;
  std::optional<std::vector<WorkPointer>> coalesced_;
  std::optional<Issuer> issuer_{std::in_place};
};

// `gloo`: Gloo's group of the same ranks, which moves the bytes.
BackendPointer make_distributed_backend(const BackendPointer& gloo);

// Replaces operations that Gloo does not have. A mean becomes a sum; the result is its divisor
// (else 1). Gloo takes bool as bytes, so sums and products of bool become the maximum and minimum.
int64_t simplify(c10d::ReduceOp& op, const Tensors& tensors, int size);

// Raises on all ranks if one of them expects another number of bytes, or another type, than a rank
// sends to it. `sent` and `received` are bytes for each rank. Blocks until all ranks have called
// it.
void compare_exchange(c10d::Backend& gloo, const std::vector<int64_t>& sent,
                      const std::vector<int64_t>& received, at::ScalarType type);

// Whether all tensors have the same number of elements.
bool same_sizes(const Tensors& tensors);

// The CPU tensors over the mapped memory of `tensors`.
Tensors on_host(const Staging& staging, const Tensors& tensors);
// The same as tensors of bytes, for operations that only move data, because Gloo does not know all
// types.
at::Tensor bytes_on_host(const Staging& staging, const at::Tensor& tensor);
Tensors bytes_on_host(const Staging& staging, const Tensors& tensors);
TensorLists bytes_on_host(const Staging& staging, const TensorLists& lists);

}  // namespace ocl
