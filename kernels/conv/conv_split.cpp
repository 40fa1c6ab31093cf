// Convolutions of GPUs with tensors of 2 GiB or more: several convolutions of some images each.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "kernels/conv/conv_algorithms.h"
#include "kernels/conv/gpu/conv_direct_gpu.h"
#include "kernels/core/types/dtype.h"

namespace ocl {
namespace {

bool of_weights(const ConvCall& call) { return call.direction == ConvDirection::kWeightGrad; }

// The number of images whose tensors are small enough.
int64_t images_of(const ConvCall& call, ScalarType type) {
  const auto images = static_cast<size_t>(call.shape.images);
  const auto bytes = [&](const at::Tensor& t) {
    return static_cast<size_t>(t.numel()) * c10::elementSize(type);
  };
  const at::Tensor& weights = of_weights(call) ? call.result : call.factor;
  if (bytes(weights) > conv_byte_limit()) return 0;
  const at::Tensor& other = of_weights(call) ? call.factor : call.result;
  const size_t image = std::max(bytes(call.source), bytes(other)) / images;
  return static_cast<int64_t>(conv_byte_limit() / std::max<size_t>(image, 1));
}

// The type of the parts. The parts of weight gradients are added, so 16-bit types use float32 if it
// fits.
ScalarType part_type(const ConvCall& call) {
  const ScalarType type = call.result.scalar_type(), compute = compute_type(type);
  return of_weights(call) && images_of(call, compute) > 0 ? compute : type;
}

int64_t images_at_once(const ConvCall& call) { return images_of(call, part_type(call)); }

const char* refusal(const ConvCall& call) {
  if (call.device.family() != KernelFamily::kGpu) return "for GPUs";
  if (most_bytes(call) <= conv_byte_limit()) return "all tensors are smaller than 2 GiB";
  return images_at_once(call) > 0 ? nullptr : "an image or the weights of 2 GiB or more";
}

void run(const ConvCall& call) {
  const int64_t images = call.shape.images, most = images_at_once(call);
  const ScalarType type = part_type(call);
  const at::TensorOptions options = call.result.options().dtype(type);
  at::Tensor total;
  if (of_weights(call)) total = at::zeros(call.result.sizes(), options.dtype(compute_type(type)));
  for (int64_t first = 0; first < images; first += most) {
    const int64_t count = std::min(most, images - first);
    const auto part = [&](const at::Tensor& all) {
      return all.defined() ? all.narrow(0, first, count).to(type) : all;
    };
    ConvShape shape = call.shape;
    shape.images = static_cast<int32_t>(count);
    const Epilogue epilogue{call.epilogue.activation, part(call.epilogue.residual)};
    const at::Tensor result =
        of_weights(call) ? at::empty(call.result.sizes(), options) : part(call.result);
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
