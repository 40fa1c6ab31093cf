// Collectives that Gloo does not have, or composes of others in a slower way.
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/prod.h>
#include <ATen/ops/sum.h>

#include <numeric>

#include "distributed/backend.h"

namespace ocl {
namespace {

using c10d::OpType;
using c10d::ReduceOp;

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

// Posts one work for each index, and returns them as one.
template <typename Post>
WorkPointer each(int rank, size_t count, const Post& post_one) {
  std::vector<WorkPointer> works;
  for (size_t i = 0; i < count; ++i) works.push_back(post_one(i));
  return c10::make_intrusive<CoalescedWork>(rank, std::move(works));
}

}  // namespace

// One collective per tensor: Gloo's coalesced one copies all tensors into a buffer.
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

// Gloo's alltoall needs tensors of one shape, but its alltoall_base takes parts of any size from a
// buffer.
WorkPointer OcclBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                  const c10d::AllToAllOptions& options) {
  const auto counts = [](const Tensors& tensors) {
    std::vector<int64_t> result;
    for (const at::Tensor& tensor : tensors) result.push_back(tensor.numel());
    return result;
  };
  const auto received = std::make_shared<at::Tensor>();
  const auto start = [gloo = gloo_, outputs, inputs, received, options,
                      output_sizes = counts(outputs),
                      input_sizes = counts(inputs)](const Staging& staging) mutable {
    at::Tensor from = joined(on_host(staging, inputs));
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

// Gloo's reduce_scatter is an all-reduce, which moves twice the bytes. Here each rank gets its part
// from all others, and reduces them.
WorkPointer OcclBackend::reduce_parts(OpType type, const at::Tensor& output, const Tensors& inputs,
                                      c10d::ReduceScatterOptions options) {
  TORCH_CHECK_NOT_IMPLEMENTED(options.reduceOp.op_ < ReduceOp::PREMUL_SUM,
                              "occl: reduce_scatter does not know PREMUL_SUM");
  const int64_t divisor = simplify(options.reduceOp, {output}, size_);
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
  // Sent as bytes, because Gloo does not know all types.
  const auto start = [gloo = gloo_, inputs, received, exchange](const Staging& staging) {
    at::Tensor from = joined(on_host(staging, inputs));
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

}  // namespace ocl
