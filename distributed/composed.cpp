// Collectives that Gloo does not have, or has in a slower way, made of other collectives.
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/prod.h>
#include <ATen/ops/sum.h>

#include <numeric>

#include "distributed/backend.h"

namespace ocl {
namespace {

using c10d::OpType;
using c10d::ReduceOp;

// The bytes of all tensors in one: a copy, unless there is only one tensor.
at::Tensor joined(const Staging& staging, const Tensors& tensors) {
  const Tensors parts = bytes_on_host(staging, tensors);
  return parts.size() == 1 ? parts.front() : at::cat(parts);
}

std::vector<int64_t> byte_counts(const Tensors& tensors) {
  std::vector<int64_t> result;
  for (const at::Tensor& tensor : tensors) result.push_back(tensor.nbytes());
  return result;
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

// Starts a work for each index, and returns all as one work.
template <typename Post>
WorkPointer each(int rank, size_t count, const Post& post_one) {
  std::vector<WorkPointer> works;
  for (size_t i = 0; i < count; ++i) works.push_back(post_one(i));
  return c10::make_intrusive<CoalescedWork>(rank, std::move(works));
}

}  // namespace

// One collective per tensor: Gloo's coalesced collective copies all tensors into a buffer.
WorkPointer OcclBackend::allreduce_coalesced(Tensors& tensors,
                                             const c10d::AllreduceCoalescedOptions& options) {
  return each(rank_, tensors.size(), [&](size_t i) {
    Tensors one{tensors[i]};
    return allreduce(one, options);
  });
}

WorkPointer OcclBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                         const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "occl: ", outputs.size(), " outputs for ",
                    inputs.size(), " inputs");
  return each(rank_, outputs.size(),
              [&](size_t i) { return _allgather_base(outputs[i], inputs[i], options); });
}

WorkPointer OcclBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                        const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == 1 && inputs.size() == 1,
                    "occl: reduce_scatter takes one output and one list of inputs");
  return reduce_parts(OpType::REDUCE_SCATTER, outputs[0], inputs[0], options);
}

WorkPointer OcclBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                              const c10d::ReduceScatterOptions& options) {
  return reduce_parts(OpType::_REDUCE_SCATTER_BASE, output, {input}, options);
}

WorkPointer OcclBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "occl: ", outputs.size(), " outputs for ",
                    inputs.size(), " inputs");
  return each(rank_, outputs.size(),
              [&](size_t i) { return _reduce_scatter_base(outputs[i], inputs[i], options); });
}

#if OCL_HAS_GATHER_SINGLE
WorkPointer OcclBackend::gather_single(at::Tensor& output, at::Tensor& input,
                                       const c10d::GatherOptions& options) {
  TensorLists outputs;
  if (options.rootRank == rank_) {
    TORCH_CHECK_VALUE(output.is_contiguous() && output.numel() == size_ * input.numel(),
                      "occl: gather_single of ", input.numel(), " elements on each of ", size_,
                      " ranks needs a contiguous output of all, got ", output.numel(),
                      " elements with strides ", output.strides());
    std::vector<int64_t> shape = input.sizes().vec();
    shape.insert(shape.begin(), size_);
    outputs.push_back(output.view(shape).unbind());
  }
  Tensors inputs{input};
  return gather(outputs, inputs, options);
}
#endif

// Gloo's alltoall needs tensors of one shape, but its alltoall_base takes parts of any size from a
// buffer.
WorkPointer OcclBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                  const c10d::AllToAllOptions& options) {
  const auto received = std::make_shared<at::Tensor>();
  const auto start = [gloo = gloo_, inputs, received, options, output_sizes = byte_counts(outputs),
                      input_sizes = byte_counts(inputs), compares = compares_,
                      type = outputs.empty() ? at::kByte : outputs.front().scalar_type()](
                         const Staging& staging) mutable {
    if (compares) compare_exchange(*gloo, input_sizes, output_sizes, type);
    at::Tensor from = joined(staging, inputs);
    const int64_t count = std::accumulate(output_sizes.begin(), output_sizes.end(), int64_t{0});
    *received = at::empty({count}, at::kByte);
    return gloo->alltoall_base(*received, from, output_sizes, input_sizes, options);
  };
  const auto finish = [outputs, received](const Staging& staging) {
    int64_t begin = 0;
    for (const at::Tensor& output : outputs) {
      at::Tensor bytes = bytes_on_host(staging, output);
      bytes.copy_(received->narrow(0, begin, bytes.numel()));
      begin += bytes.numel();
    }
  };
  return post({OpType::ALLTOALL, inputs, {outputs}, start, 1, finish});
}

// Gloo's reduce_scatter is an all-reduce, which moves twice the bytes. Here each rank receives its
// part from all others, and reduces the parts.
WorkPointer OcclBackend::reduce_parts(OpType type, const at::Tensor& output, const Tensors& inputs,
                                      c10d::ReduceScatterOptions options) {
  TORCH_CHECK_NOT_IMPLEMENTED(options.reduceOp.op_ < ReduceOp::PREMUL_SUM,
                              "occl: reduce_scatter does not know PREMUL_SUM");
  const int64_t divisor = simplify(options.reduceOp, {output}, size_);
  if (type == OpType::REDUCE_SCATTER) {
    TORCH_CHECK_VALUE(
        static_cast<int>(inputs.size()) == size_ && inputs[rank_].numel() == output.numel(),
        "occl: reduce_scatter takes a part for each of ", size_,
        " ranks, and an output as large as this rank's, got ", inputs.size(), " parts and ",
        output.numel(), " elements");
  } else {
    TORCH_CHECK_VALUE(inputs[0].numel() == size_ * output.numel(), "occl: reduce_scatter of ",
                      inputs[0].numel(), " elements into ", output.numel(), " on each of ", size_,
                      " ranks");
  }
  c10d::AllToAllOptions exchange;
  exchange.timeout = options.timeout;
  const auto received = std::make_shared<at::Tensor>();
  std::vector<int64_t> input_sizes;
  if (!same_sizes(inputs)) input_sizes = byte_counts(inputs);
  const auto start = [gloo = gloo_, inputs, received, exchange, input_sizes,
                      type = output.scalar_type(),
                      count = size_ * output.numel()](const Staging& staging) mutable {
    at::Tensor from = joined(staging, inputs);
    *received = at::empty({count}, type);
    at::Tensor to = received->view(at::kByte);
    std::vector<int64_t> equal;
    return gloo->alltoall_base(to, from, equal, input_sizes, exchange);
  };
  const auto finish = [output, received, op = options.reduceOp.op_,
                       size = size_](const Staging& staging) {
    at::Tensor result = staging.host(output).view(-1);
    reduce_rows(result, received->view({size, result.numel()}), op);
  };
  return post({type, inputs, {{output}}, start, divisor, finish});
}

}  // namespace ocl
