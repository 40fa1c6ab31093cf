// The all-reduce of sparse tensors. The ranks have different indices, so the size of the result is
// only known at the end, and it gets new memory.
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <torch/library.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "distributed/backend.h"

namespace ocl {

WorkPointer OcclBackend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& given) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "occl: all_reduce of ", tensors.size(),
                    " sparse tensors in one call");
  auto options = given;
  const int64_t divisor = simplify(options.reduceOp, tensors, size_);
  const at::Tensor tensor = tensors[0];
  const auto reduced = std::make_shared<Tensors>();
  const auto start = [gloo = gloo_, tensor, reduced, options](const Staging&) {
    // Gloo stores the result in this copy; the tensor itself keeps its memory until the end. It is
    // made here, because a collective before this one may give the tensor new memory.
    const at::Tensor values = tensor._values().to(at::kCPU);
    *reduced = {at::_sparse_coo_tensor_unsafe(tensor._indices().to(at::kCPU), values,
                                              tensor.sizes(), values.options())
                    .coalesce()};
    return gloo->allreduce(*reduced, options);
  };
  const auto finish = [tensor, reduced](const Staging&) {
    at::Tensor result = tensor;
    result.copy_(reduced->front());
  };
  return post({c10d::OpType::_ALLREDUCE_SPARSE, {}, {{tensor}}, start, divisor, finish});
}

namespace {

std::tuple<Tensors, WorkPointer> allreduce_sparse(
    at::TensorList tensors, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
    const c10::intrusive_ptr<c10d::ReduceOp>& op, const std::optional<at::Tensor>& sparse_indices,
    bool async, int64_t timeout) {
  c10d::AllreduceOptions options{*op, std::chrono::milliseconds(timeout)};
  options.sparseIndices = sparse_indices;
  options.asyncOp = async;
  Tensors list = tensors.vec();
  WorkPointer work = group->getBackend(c10::kPrivateUse1)->allreduce_sparse(list, options);
  return {std::move(list), std::move(work)};
}

TORCH_LIBRARY_IMPL(c10d, SparsePrivateUse1, m) { m.impl("allreduce_", allreduce_sparse); }

}  // namespace
}  // namespace ocl
