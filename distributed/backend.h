// The c10d backend "occl": collectives of ocl tensors by Gloo, on mapped memory.
//
// Gloo's group is made in Python (torch_ocl/distributed.py), since Gloo's headers are not part of
// PyTorch's packages. A collective is checked in the caller's thread and gets an event of the
// caller's stream; the issuing thread waits for that, maps the memory and starts Gloo's collective,
// whose end unmaps it (work.h). So the caller goes on enqueuing kernels meanwhile.
//
// Virtuals of c10d::Backend that are not overridden: what only NCCL has (shrink, completion hooks,
// waitForPendingWorks, getMemAllocator, allocateTensor, suspend, resume, getMemoryStats, getError;
// eagerConnectSingleDevice does nothing, as Gloo connects when it is made), and allreduce_sparse,
// which needs tensors of data-dependent size.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace ocl {

// `gloo` is the group of the same ranks that moves the bytes.
c10::intrusive_ptr<c10d::Backend> make_distributed_backend(
    const c10::intrusive_ptr<c10d::Backend>& gloo);

}  // namespace ocl
