// The collectives that Gloo has: each calls Gloo's on mapped memory.
#include "distributed/backend.h"

namespace ocl {
namespace {

using c10d::OpType;

Tensors flat(const TensorLists& lists) {
  Tensors result;
  for (const Tensors& tensors : lists) result.insert(result.end(), tensors.begin(), tensors.end());
  return result;
}

// The bytes of each row of the first dimension, which all-to-all splits.
at::Tensor rows_on_host(const Staging& staging, const at::Tensor& tensor) {
  const at::Tensor bytes = bytes_on_host(staging, tensor);
  const int64_t rows = staging.noted(tensor).size(0);
  return bytes.view({rows, rows == 0 ? 0 : bytes.numel() / rows});
}

// The bytes for each rank if `rows` rows are split into parts of `sizes` rows; into equal parts if
// `sizes` is empty, -1 where that is impossible.
std::vector<int64_t> bytes_of_parts(const at::Tensor& rows, std::vector<int64_t> sizes, int ranks) {
  if (sizes.empty()) {
    return std::vector<int64_t>(ranks, rows.size(0) % ranks ? -1 : rows.numel() / ranks);
  }
  for (int64_t& size : sizes) size *= rows.size(1);
  return sizes;
}

// Gloo checks only the sum of the sizes: with a negative one, it would access other memory.
void check_parts(const at::Tensor& tensor, const std::vector<int64_t>& sizes) {
  for (const int64_t size : sizes) {
    TORCH_CHECK_VALUE(0 <= size && size <= tensor.size(0), "occl: all-to-all of a part of ", size,
                      " rows, but the tensor has ", tensor.size(0));
  }
}

}  // namespace

WorkPointer OcclBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const bool root = options.rootRank == rank_;
  return post({OpType::BROADCAST,
               root ? tensors : Tensors{},
               {tensors},
               [gloo = gloo_, tensors, options](const Staging& staging) {
                 Tensors mapped = bytes_on_host(staging, tensors);
                 return gloo->broadcast(mapped, options);
               }});
}

WorkPointer OcclBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& given) {
  if (!tensors.empty() && tensors[0].is_sparse()) return allreduce_sparse(tensors, given);
  auto options = given;
  const int64_t divisor = simplify(options.reduceOp, tensors, size_);
  return post({OpType::ALLREDUCE,
               tensors,
               {tensors},
               [gloo = gloo_, tensors, options](const Staging& staging) {
                 Tensors mapped = on_host(staging, tensors);
                 return gloo->allreduce(mapped, options);
               },
               divisor});
}

// Gloo uses the tensors of the other ranks as scratch memory, so these ranks pass a copy.
WorkPointer OcclBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& given) {
  auto options = given;
  const int64_t divisor = simplify(options.reduceOp, tensors, size_);
  const bool root = options.rootRank == rank_;
  return post({OpType::REDUCE,
               tensors,
               {root ? tensors : Tensors{}},
               [gloo = gloo_, tensors, options, root](const Staging& staging) {
                 Tensors mapped = on_host(staging, tensors);
                 if (!root) {
                   for (at::Tensor& tensor : mapped) tensor = tensor.clone();
                 }
                 return gloo->reduce(mapped, options);
               },
               divisor});
}

// A collective whose results are lists of the tensors of several ranks.
template <typename Given>
WorkPointer OcclBackend::post_lists(
    OpType type, WorkPointer (c10d::Backend::*collective)(TensorLists&, Tensors&, const Given&),
    const TensorLists& outputs, const Tensors& inputs, const Given& options) {
  return post({type, inputs, outputs,
               [gloo = gloo_, collective, outputs, inputs, options](const Staging& staging) {
                 TensorLists to = bytes_on_host(staging, outputs);
                 Tensors from = bytes_on_host(staging, inputs);
                 return ((*gloo).*collective)(to, from, options);
               }});
}

WorkPointer OcclBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                   const c10d::AllgatherOptions& options) {
  if (outputs.size() == 1 && inputs.size() == 1 && !same_sizes(outputs[0])) {
    // Gloo's own collective needs equal parts, but its all-to-all does not.
    TORCH_CHECK_VALUE(static_cast<int>(outputs[0].size()) == size_ &&
                          outputs[0][rank_].numel() == inputs[0].numel(),
                      "occl: all_gather of ", inputs[0].numel(), " elements into ",
                      outputs[0].size(), " tensors, that of this rank of another size");
    c10d::AllToAllOptions exchange;
    exchange.timeout = options.timeout;
    Tensors copies(size_, inputs[0]);
    return alltoall(outputs[0], copies, exchange);
  }
  return post_lists(OpType::ALLGATHER, &c10d::Backend::allgather, outputs, inputs, options);
}

WorkPointer OcclBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                         const c10d::AllgatherOptions& options) {
  return post({OpType::_ALLGATHER_BASE,
               {input},
               {{output}},
               [gloo = gloo_, output, input, options](const Staging& staging) {
                 at::Tensor to = bytes_on_host(staging, output);
                 at::Tensor from = bytes_on_host(staging, input);
                 return gloo->_allgather_base(to, from, options);
               }});
}

WorkPointer OcclBackend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                             const c10d::AllgatherOptions& options) {
  return post_lists(OpType::ALLGATHER_COALESCED, &c10d::Backend::allgather_coalesced, outputs,
                    inputs, options);
}

WorkPointer OcclBackend::gather(TensorLists& outputs, Tensors& inputs,
                                const c10d::GatherOptions& options) {
  return post_lists(OpType::GATHER, &c10d::Backend::gather, outputs, inputs, options);
}

WorkPointer OcclBackend::scatter(Tensors& outputs, TensorLists& inputs,
                                 const c10d::ScatterOptions& options) {
  return post({OpType::SCATTER,
               flat(inputs),
               {outputs},
               [gloo = gloo_, outputs, inputs, options](const Staging& staging) {
                 Tensors to = bytes_on_host(staging, outputs);
                 TensorLists from = bytes_on_host(staging, inputs);
                 return gloo->scatter(to, from, options);
               }});
}

WorkPointer OcclBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                       std::vector<int64_t>& output_sizes,
                                       std::vector<int64_t>& input_sizes,
                                       const c10d::AllToAllOptions& options) {
  check_parts(output, output_sizes);
  check_parts(input, input_sizes);
  return post({OpType::ALLTOALL_BASE,
               {input},
               {{output}},
               [gloo = gloo_, output, input, output_sizes, input_sizes, options,
                compares = compares_](const Staging& staging) mutable {
                 at::Tensor to = rows_on_host(staging, output), from = rows_on_host(staging, input);
                 if (compares) {
                   const int ranks = gloo->getSize();
                   compare_exchange(*gloo, bytes_of_parts(from, input_sizes, ranks),
                                    bytes_of_parts(to, output_sizes, ranks), output.scalar_type());
                 }
                 return gloo->alltoall_base(to, from, output_sizes, input_sizes, options);
               }});
}

WorkPointer OcclBackend::send(Tensors& tensors, int destination, int tag) {
  return post({OpType::SEND,
               tensors,
               {},
               [gloo = gloo_, tensors, destination, tag](const Staging& staging) {
                 Tensors mapped = on_host(staging, tensors);
                 return gloo->send(mapped, destination, tag);
               }});
}

WorkPointer OcclBackend::recv(Tensors& tensors, int source, int tag) {
  return post(
      {OpType::RECV, {}, {tensors}, [gloo = gloo_, tensors, source, tag](const Staging& staging) {
         Tensors mapped = on_host(staging, tensors);
         return gloo->recv(mapped, source, tag);
       }});
}

WorkPointer OcclBackend::recvAnysource(Tensors& tensors, int tag) {
  return post(
      {OpType::RECVANYSOURCE, {}, {tensors}, [gloo = gloo_, tensors, tag](const Staging& staging) {
         Tensors mapped = on_host(staging, tensors);
         return gloo->recvAnysource(mapped, tag);
       }});
}

WorkPointer OcclBackend::barrier(const c10d::BarrierOptions& options) {
  return post({OpType::BARRIER, {}, {}, [gloo = gloo_, options](const Staging&) {
                 return gloo->barrier(options);
               }});
}

void OcclBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  issuer_->drain();
  gloo_->monitoredBarrier(options, wait_all_ranks);
}

}  // namespace ocl
