// Large matrix products by CLBlast, whose database holds tuned parameters for hundreds of GPUs. The
// library is opened at the first such product; without it, or with OCL_CLBLAST=0, our own kernels
// (gemm_gpu.cl) compute it. float16 products always use our kernels, because CLBlast sums them in
// float16.
#pragma once

#include <c10/core/Scalar.h>

#include "backend/device/buffer_view.h"
#include "backend/queue/stream.h"
#include "kernels/core/types/dtype.h"

namespace ocl {

// A row-major matrix, or the transpose of one; strides in elements.
struct BlasMatrix {
  BufferView view;
  bool transposed;
  int64_t ld;
  int64_t batch_stride;
};

// out = alpha * a b + beta * out; out is not transposed.
struct BlasProduct {
  ScalarType type;
  int64_t m, n, k, batches;
  BlasMatrix a, b, out;
  c10::Scalar alpha, beta;

  double work() const {  // GridLimits::work
    return static_cast<double>(m) * n * k * batches * multiply_cost(type);
  }
};

// Whether products of this type can go to CLBlast here.
bool clblast_has(ScalarType type);
// Whether CLBlast takes these strides and offsets.
bool clblast_accepts(const BlasProduct& product);
// Products beyond the device's GridLimits::work become several. False where CLBlast failed before
// anything was written. Where that was for another reason than memory, the device does not use it
// again.
[[nodiscard]] bool clblast_gemm(Stream& stream, const BlasProduct& product);

}  // namespace ocl
