#pragma once

#include "kernels/conv/common/conv_layout.h"

namespace ocl {

// The padded copy of the tensor that `layout` describes (conv_pack.cl).
at::Tensor conv_pad(const PaddedLayout& layout, const at::Tensor& tensor);

}  // namespace ocl
