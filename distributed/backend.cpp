#include "distributed/backend.h"

#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/prod.h>
#include <ATen/ops/sum.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>
#include <numeric>
#include <set>

#include "distributed/issuer.h"
#include "distributed/work.h"

namespace ocl {
namespace {

using c10d::OpType;
using c10d::ReduceOp;
using BackendPointer = c10::intrusive_ptr<c10d::Backend>;
using TensorLists = std::vector<Tensors>;

Tensors host(const Staging& staging, const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& tensor : tensors) result.push_back(staging.host(tensor));
  return result;
}

TensorLists host(const Staging& staging, const TensorLists& lists) {
  TensorLists result;
  for (const Tensors& tensors : lists) result.push_back(host(staging, tensors));
  return result;
}

Tensors flat(const TensorLists& lists) {
  Tensors result;
  for (const Tensors& tensors : lists) result.insert(result.end(), tensors.begin(), tensors.end());
  return result;
}

at::Tensor joined(const Tensors& tensors) {
  Tensors parts;
  for (const at::Tensor& tensor : tensors) parts.push_back(tensor.view(-1));
  return parts.size() == 1 ? parts.front() : at::cat(parts);
}

void reduce_rows(at::Tensor& result, const at::Tensor& rows, ReduceOp::RedOpType op) {
  switch (op) {
    case ReduceOp::SUM:
      at::sum_out(result, rows, 0, false, rows.scalar_type());
      return;
    case ReduceOp::PRODUCT:
      at::prod_out(result, rows, 0, false, rows.scalar_type());
      return;
    case ReduceOp::MIN:
      at::amin_out(result, rows, 0);
      return;
    case ReduceOp::MAX:
      at::amax_out(result, rows, 0);
      return;
    default:
      result.copy_(rows[0]);
      for (int64_t row = 1; row < rows.size(0); ++row) {
        if (op == ReduceOp::BAND) result.bitwise_and_(rows[row]);
        if (op == ReduceOp::BOR) result.bitwise_or_(rows[row]);
        if (op == ReduceOp::BXOR) result.bitwise_xor_(rows[row]);
      }
  }
}

void check(const Operation& operation, const at::Tensor& tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == c10::kStrided, "occl does not support ",
                              c10d::opTypeToString(operation.type), " of tensors of layout ",
                              tensor.layout());
  const bool whole = operation.type == OpType::ALLREDUCE || operation.type == OpType::BROADCAST;
  TORCH_CHECK_VALUE(whole ? tensor.is_non_overlapping_and_dense() : tensor.is_contiguous(),
                    "occl: tensors of ", c10d::opTypeToString(operation.type),
                    " must be contiguous, got sizes ", tensor.sizes(), " with strides ",
                    tensor.strides());
}

// A mean is a sum for Gloo; the work divides it.
template <typename Options>
int64_t take_mean(Options& options, const Tensors& tensors, int size) {
  if (options.reduceOp.op_ != ReduceOp::AVG) return 1;
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK_TYPE(tensor.is_floating_point() || tensor.is_complex(),
                     "ReduceOp.AVG needs floating point tensors, got ", tensor.scalar_type());
  }
  options.reduceOp = ReduceOp::SUM;
  return size;
}

class OcclBackend final : public c10d::Backend {
 public:
  explicit OcclBackend(BackendPointer gloo)
      : Backend(gloo->getRank(), gloo->getSize()), gloo_(std::move(gloo)) {
    init();
  }

  const std::string getBackendName() const override { return "occl"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return gloo_->getBackendOptions(); }
  void setTimeout(std::chrono::milliseconds timeout) override { gloo_->setTimeout(timeout); }
  void setSequenceNumberForGroup() override { gloo_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override {
    issuer_.drain();
    return gloo_->getSequenceNumberForGroup();
  }
  void enableCollectivesTiming() override { gloo_->enableCollectivesTiming(); }
  void abort() override { gloo_->abort(); }
  void shutdown() override {
    issuer_.drain();
    gloo_->shutdown();
  }

  bool supportsSplitting() const override { return gloo_->supportsSplitting(); }
  BackendPointer split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                       const c10::intrusive_ptr<Options>& options) override {
    const BackendPointer part = gloo_->split(store, ranks, options);
    return part ? make_distributed_backend(part) : nullptr;
  }
  BackendPointer merge(const c10::intrusive_ptr<c10d::Store>& store,
                       const c10::intrusive_ptr<Options>& options, const int& rank,
                       const int& size) override {
    return make_distributed_backend(gloo_->merge(store, options, rank, size));
  }

  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override {
    TORCH_CHECK(!coalesced_, "occl: coalescing has already begun");
    coalesced_.emplace();
  }
  WorkPointer endCoalescing() override {
    TORCH_CHECK(coalesced_, "occl: endCoalescing without startCoalescing");
    auto work = c10::make_intrusive<CoalescedWork>(rank_, std::move(*coalesced_));
    coalesced_.reset();
    return work;
  }

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const bool root = options.rootRank == rank_;
    return post({OpType::BROADCAST,
                 root ? tensors : Tensors{},
                 {tensors},
                 [gloo = gloo_, tensors, options](const Staging& staging) {
                   Tensors on_host = host(staging, tensors);
                   return gloo->broadcast(on_host, options);
                 }});
  }

  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& given) override {
    auto options = given;
    const int64_t divisor = take_mean(options, tensors, size_);
    return post({OpType::ALLREDUCE,
                 tensors,
                 {tensors},
                 [gloo = gloo_, tensors, options](const Staging& staging) {
                   Tensors on_host = host(staging, tensors);
                   return gloo->allreduce(on_host, options);
                 },
                 divisor});
  }

  // One collective for each tensor: Gloo's coalesced one copies all into a buffer.
  WorkPointer allreduce_coalesced(Tensors& tensors,
                                  const c10d::AllreduceCoalescedOptions& options) override {
    return each(tensors.size(), [&](size_t i) {
      Tensors one{tensors[i]};
      return allreduce(one, options);
    });
  }

  // Gloo uses the tensors of the other ranks as scratch memory; those get a copy instead.
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& given) override {
    auto options = given;
    const int64_t divisor = take_mean(options, tensors, size_);
    const bool root = options.rootRank == rank_;
    return post({OpType::REDUCE,
                 tensors,
                 {root ? tensors : Tensors{}},
                 [gloo = gloo_, tensors, options, root](const Staging& staging) {
                   Tensors on_host = host(staging, tensors);
                   if (!root) {
                     for (at::Tensor& tensor : on_host) tensor = tensor.clone();
                   }
                   return gloo->reduce(on_host, options);
                 },
                 divisor});
  }

  WorkPointer allgather(TensorLists& outputs, Tensors& inputs,
                        const c10d::AllgatherOptions& options) override {
    return post({OpType::ALLGATHER, inputs, outputs,
                 [gloo = gloo_, outputs, inputs, options](const Staging& staging) {
                   TensorLists to = host(staging, outputs);
                   Tensors from = host(staging, inputs);
                   return gloo->allgather(to, from, options);
                 }});
  }

  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& options) override {
    return post({OpType::_ALLGATHER_BASE,
                 {input},
                 {{output}},
                 [gloo = gloo_, output, input, options](const Staging& staging) {
                   at::Tensor to = staging.host(output), from = staging.host(input);
                   return gloo->_allgather_base(to, from, options);
                 }});
  }

  WorkPointer allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options) override {
    return post({OpType::ALLGATHER_COALESCED, inputs, outputs,
                 [gloo = gloo_, outputs, inputs, options](const Staging& staging) {
                   TensorLists to = host(staging, outputs);
                   Tensors from = host(staging, inputs);
                   return gloo->allgather_coalesced(to, from, options);
                 }});
  }

  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) override {
    TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "occl: ", outputs.size(), " outputs for ",
                      inputs.size(), " inputs");
    return each(outputs.size(),
                [&](size_t i) { return _allgather_base(outputs[i], inputs[i], options); });
  }

  WorkPointer gather(TensorLists& outputs, Tensors& inputs,
                     const c10d::GatherOptions& options) override {
    return post({OpType::GATHER, inputs, outputs,
                 [gloo = gloo_, outputs, inputs, options](const Staging& staging) {
                   TensorLists to = host(staging, outputs);
                   Tensors from = host(staging, inputs);
                   return gloo->gather(to, from, options);
                 }});
  }

  WorkPointer scatter(Tensors& outputs, TensorLists& inputs,
                      const c10d::ScatterOptions& options) override {
    return post({OpType::SCATTER,
                 flat(inputs),
                 {outputs},
                 [gloo = gloo_, outputs, inputs, options](const Staging& staging) {
                   Tensors to = host(staging, outputs);
                   TensorLists from = host(staging, inputs);
                   return gloo->scatter(to, from, options);
                 }});
  }

  WorkPointer reduce_scatter(Tensors& outputs, TensorLists& inputs,
                             const c10d::ReduceScatterOptions& options) override {
    TORCH_CHECK_VALUE(outputs.size() == 1 && inputs.size() == 1,
                      "occl: reduce_scatter takes one output and one list of inputs");
    return reduce_parts(OpType::REDUCE_SCATTER, outputs[0], inputs[0], options);
  }

  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override {
    return reduce_parts(OpType::_REDUCE_SCATTER_BASE, output, {input}, options);
  }

  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& options) override {
    TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "occl: ", outputs.size(), " outputs for ",
                      inputs.size(), " inputs");
    return each(outputs.size(),
                [&](size_t i) { return _reduce_scatter_base(outputs[i], inputs[i], options); });
  }

  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<int64_t>& output_sizes, std::vector<int64_t>& input_sizes,
                            const c10d::AllToAllOptions& options) override {
    return post({OpType::ALLTOALL_BASE,
                 {input},
                 {{output}},
                 [gloo = gloo_, output, input, output_sizes, input_sizes,
                  options](const Staging& staging) mutable {
                   at::Tensor to = staging.host(output), from = staging.host(input);
                   return gloo->alltoall_base(to, from, output_sizes, input_sizes, options);
                 }});
  }

  // Gloo wants tensors of one shape here, but takes parts of any size from one buffer.
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs,
                       const c10d::AllToAllOptions& options) override {
    const auto counts = [](const Tensors& tensors) {
      std::vector<int64_t> result;
      for (const at::Tensor& tensor : tensors) result.push_back(tensor.numel());
      return result;
    };
    const auto received = std::make_shared<at::Tensor>();
    const auto start = [gloo = gloo_, outputs, inputs, received, options,
                        output_sizes = counts(outputs),
                        input_sizes = counts(inputs)](const Staging& staging) mutable {
      at::Tensor from = joined(host(staging, inputs));
      const int64_t count = std::accumulate(output_sizes.begin(), output_sizes.end(), int64_t{0});
      *received = at::empty({count}, from.options());
      return gloo->alltoall_base(*received, from, output_sizes, input_sizes, options);
    };
    const auto finish = [outputs, received](const Staging& staging) {
      int64_t begin = 0;
      for (const at::Tensor& output : outputs) {
        const at::Tensor part = received->narrow(0, begin, output.numel());
        staging.host(output).copy_(part.view(output.sizes()));
        begin += output.numel();
      }
    };
    return post({OpType::ALLTOALL, inputs, {outputs}, start, 1, finish});
  }

  WorkPointer send(Tensors& tensors, int destination, int tag) override {
    return post({OpType::SEND,
                 tensors,
                 {},
                 [gloo = gloo_, tensors, destination, tag](const Staging& staging) {
                   Tensors on_host = host(staging, tensors);
                   return gloo->send(on_host, destination, tag);
                 }});
  }

  WorkPointer recv(Tensors& tensors, int source, int tag) override {
    return post(
        {OpType::RECV, {}, {tensors}, [gloo = gloo_, tensors, source, tag](const Staging& staging) {
           Tensors on_host = host(staging, tensors);
           return gloo->recv(on_host, source, tag);
         }});
  }

  WorkPointer recvAnysource(Tensors& tensors, int tag) override {
    return post({OpType::RECVANYSOURCE,
                 {},
                 {tensors},
                 [gloo = gloo_, tensors, tag](const Staging& staging) {
                   Tensors on_host = host(staging, tensors);
                   return gloo->recvAnysource(on_host, tag);
                 }});
  }

  WorkPointer barrier(const c10d::BarrierOptions& options) override {
    return post({OpType::BARRIER, {}, {}, [gloo = gloo_, options](const Staging&) {
                   return gloo->barrier(options);
                 }});
  }

  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override {
    issuer_.drain();
    gloo_->monitoredBarrier(options, wait_all_ranks);
  }

 private:
  // Checks, notes where the caller's streams are, and leaves the rest to the issuing thread.
  WorkPointer post(Operation operation) {
    std::set<DeviceIndex> devices;
    const auto note = [&](const at::Tensor& tensor) {
      check(operation, tensor);
      if (on_ocl_device(tensor)) devices.insert(tensor.device().index());
    };
    for (const at::Tensor& tensor : operation.reads) note(tensor);
    for (const at::Tensor& tensor : flat(operation.writes)) note(tensor);

    std::vector<StagingStream> streams;
    for (const DeviceIndex device : devices) {
      streams.push_back({side_stream(device), Event()});
      streams.back().ready.record(current_stream(device));
    }
    record_use(operation.reads);
    for (const Tensors& tensors : operation.writes) record_use(tensors);
    auto work = c10::make_intrusive<StagedWork>(rank_, std::move(operation), std::move(streams));
    issuer_.submit([work] { work->start(); });
    if (coalesced_) coalesced_->push_back(work);
    return work;
  }

  // Gloo makes its reduce_scatter of an all-reduce, which moves twice the bytes. Here each rank
  // gets its parts from all others and reduces them.
  WorkPointer reduce_parts(OpType type, const at::Tensor& output, const Tensors& inputs,
                           c10d::ReduceScatterOptions options) {
    TORCH_CHECK_NOT_IMPLEMENTED(options.reduceOp.op_ < ReduceOp::PREMUL_SUM,
                                "occl: reduce_scatter does not know PREMUL_SUM");
    const int64_t divisor = take_mean(options, {output}, size_);
    int64_t count = 0;
    for (const at::Tensor& input : inputs) {
      TORCH_CHECK_TYPE(input.scalar_type() == output.scalar_type(), "occl: reduce_scatter of ",
                       input.scalar_type(), " into ", output.scalar_type());
      TORCH_CHECK_VALUE(inputs.size() == 1 || input.numel() == output.numel(),
                        "occl: reduce_scatter of a part of ", input.numel(), " elements into ",
                        output.numel());
      count += input.numel();
    }
    TORCH_CHECK_VALUE(count == size_ * output.numel(), "occl: reduce_scatter of ", count,
                      " elements into ", output.numel(), " on each of ", size_, " ranks");
    c10d::AllToAllOptions exchange;
    exchange.timeout = options.timeout;
    const auto received = std::make_shared<at::Tensor>();
    // As bytes: Gloo does not know all types.
    const auto start = [gloo = gloo_, inputs, received, exchange](const Staging& staging) {
      at::Tensor from = joined(host(staging, inputs));
      *received = at::empty_like(from);
      at::Tensor to_bytes = received->view(at::kByte), from_bytes = from.view(at::kByte);
      std::vector<int64_t> equal;
      return gloo->alltoall_base(to_bytes, from_bytes, equal, equal, exchange);
    };
    const auto finish = [output, received, op = options.reduceOp.op_,
                         size = size_](const Staging& staging) {
      at::Tensor result = staging.host(output).view(-1);
      reduce_rows(result, received->view({size, result.numel()}), op);
    };
    return post({type, inputs, {{output}}, start, divisor, finish});
  }

  // One work for each index, as one.
  template <typename Post>
  WorkPointer each(size_t count, const Post& post_one) {
    std::vector<WorkPointer> works;
    for (size_t i = 0; i < count; ++i) works.push_back(post_one(i));
    return c10::make_intrusive<CoalescedWork>(rank_, std::move(works));
  }

  c10::Stream side_stream(DeviceIndex device) {
    const auto found = side_streams_.find(device);
    if (found != side_streams_.end()) return found->second;
    return side_streams_.emplace(device, stream_from_pool(device, false)).first->second;
  }

  // The memory may not go to others before the side stream has unmapped it.
  void record_use(const Tensors& tensors) {
    for (const at::Tensor& tensor : tensors) {
      if (!on_ocl_device(tensor) || tensor.numel() == 0) continue;
      const c10::impl::VirtualGuardImpl guard(tensor.device().type());
      guard.recordDataPtrOnStream(tensor.storage().data_ptr(),
                                  side_stream(tensor.device().index()));
    }
  }

  BackendPointer gloo_;
  std::map<DeviceIndex, c10::Stream> side_streams_;
  std::optional<std::vector<WorkPointer>> coalesced_;
  Issuer issuer_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_distributed_backend(
    const c10::intrusive_ptr<c10d::Backend>& gloo) {
  return c10::make_intrusive<OcclBackend>(gloo);
}

}  // namespace ocl
