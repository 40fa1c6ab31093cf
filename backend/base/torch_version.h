// Features that depend on PyTorch's version.
#pragma once

#include <torch/headeronly/version.h>

// check_valid_input() of at::native::padding is a function that takes the number of dimensions.
#define OCL_CHECKS_PADDING_BY_DIMENSIONS (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15)
// Storages have materializers, which lazy clones need (kernels/core/tensors/lazy_clone.h).
#define OCL_HAS_LAZY_CLONES (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 13)
// torch.distributed has gather_single.
#define OCL_HAS_GATHER_SINGLE (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 14)
