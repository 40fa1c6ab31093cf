// Convolutions of GPUs with tensors of 2 GiB or more: several convolutions of some images each.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "kernels/conv/conv_algorithms.h"
#include "kernels/conv/gpu/conv_direct_gpu.h"
#include "kernels/core/dtype.h"

namespace ocl {
namespace {

bool of_weights(const ConvCall& call) { return call.direction == ConvDirection::kWeightGrad; }

// The images whose tensors are small enough; the weights have none.
int64_t images_at_once(const ConvCall& call) {
  const auto images = static_cast<size_t>(call.shape.images);
  const at::Tensor& weights = of_weights(call) ? call.result : call.factor;
  if (weights.nbytes() > conv_byte_limit()) return 0;
  const at::Tensor& other = of_weights(call) ? call.factor : call.result;
  const size_t image = std::max(call.source.nbytes(), other.nbytes()) / images;
  return static_cast<int64_t>(conv_byte_limit() / std::max<size_t>(image, 1));
}

const char* refusal(const ConvCall& call) {
  if (call.device.family() != KernelFamily::kGpu) return "for GPUs";
  if (most_bytes(call) <= conv_byte_limit()) return "all tensors are smaller than 2 GiB";
  return images_at_once(call) > 0 ? nullptr : "an image or the weights of 2 GiB or more";
}

void run(const ConvCall& call) {
  const int64_t images = call.shape.images, most = images_at_once(call);
  at::Tensor total;
  if (of_weights(call)) {
    const ScalarType compute = compute_type(call.result.scalar_type());
    total = at::zeros(call.result.sizes(), call.result.options().dtype(compute));
  }
  for (int64_t first = 0; first < images; first += most) {
    const int64_t count = std::min(most, images - first);
    const auto part = [&](const at::Tensor& all) {
      return all.defined() ? all.narrow(0, first, count) : all;
    };
    ConvShape shape = call.shape;
    shape.images = static_cast<int32_t>(count);
    const Epilogue epilogue{call.epilogue.activation, part(call.epilogue.residual)};
    const at::Tensor result = of_weights(call)
                                  ? at::empty(call.result.sizes(), call.result.options())
                                  : part(call.result);
    const at::Tensor factor = of_weights(call) ? part(call.factor) : call.factor;
    run_convolution({call.direction, shape, false, result, part(call.source), factor, call.bias,
                     epilogue, call.device});
    if (total.defined()) total.add_(result);
  }
  if (total.defined()) at::Tensor(call.result).copy_(total);
}

}  // namespace

const ConvAlgorithm kConvSplit{"split", false, &refusal, &run};

}  // namespace ocl
