// Features that depend on PyTorch's version.
#pragma once

#include <torch/headeronly/version.h>

// Storages have materializers, which lazy clones need (kernels/core/lazy_clone.h).
#define OCL_HAS_LAZY_CLONES (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 13)
