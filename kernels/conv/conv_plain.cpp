// Convolutions of every type, geometry and family: launches of conv_plain.cl.
#include <ATen/ceil_div.h>

#include <bit>

#include "kernels/conv/common/conv_algorithm.h"
#include "kernels/core/algorithms/algorithms.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"

namespace ocl {
namespace {

constexpr size_t kGroup = 64;  // the most work-items that compute one weight's gradient

struct ConvPlain {
  ScalarType type;
  ConvDirection direction;

  KernelSource source(Device&, size_t group) const {
    static constexpr const char* kNames[] = {"conv_forward", "conv_data_grad", "conv_weight_grad"};
    Defines defines = element_defines(type);
    defines.set("WG_SIZE", static_cast<int64_t>(std::min(group, kGroup)));
    return {"conv_plain.cl", kNames[static_cast<int>(direction)], defines};
  }
};

const Kernel& kernel_of(const ConvCall& call) {
  return find_kernel(call.device, ConvPlain{call.result.scalar_type(), call.direction});
}

size_t product(const ConvShape::Dims& dims) { return size_t{1} * dims[0] * dims[1] * dims[2]; }

double work_of(const ConvCall& call) {
  return call.shape.work() * multiply_cost(call.result.scalar_type()) * kPlainCost;
}

// One work-item per element of the result, whose planes have `plane` elements.
void run_pixels(const ConvCall& call, size_t plane) {
  const at::Tensor &result = call.result, &source = call.source;
  const at::Tensor &weight = call.factor, &bias = call.bias;
  Arguments arguments(stream_of(result), kernel_of(call));
  arguments.add(view(result))
      .add(view(source.numel() ? source : result))
      .add(view(weight))
      .add(view(bias.defined() ? bias : weight))
      .add(static_cast<int32_t>(bias.defined()))
      .add(call.shape);
  const size_t group = std::min(arguments.group(), kGroup);
  arguments.enqueue({at::round_up(plane, group), result.numel() / plane}, {group}, work_of(call));
}

void run_weights(const ConvCall& call) {
  Arguments arguments(stream_of(call.result), kernel_of(call));
  const size_t group = std::min(arguments.group(), kGroup);
  arguments.add(view(call.result)).add(view(call.source)).add(view(call.factor));
  arguments.add(call.shape);
  arguments.enqueue({group, static_cast<size_t>(call.result.numel())}, {group}, work_of(call));
}

const char* refusal(const ConvCall&) { return nullptr; }

void run(const ConvCall& call) {
  switch (call.direction) {
    case ConvDirection::kForward:
      run_pixels(call, product(call.shape.out));
      return apply_epilogue(call.epilogue, call.result, call.result);
    case ConvDirection::kDataGrad:
      return run_pixels(call, product(call.shape.in));
    case ConvDirection::kWeightGrad:
      return run_weights(call);
  }
}

}  // namespace

const ConvAlgorithm kConvPlain{"plain", false, &refusal, &run};

}  // namespace ocl
