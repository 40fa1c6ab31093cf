// Convolutions of channels_last tensors that are matrix products of [pixels][channels] and
// [filters][channels]: one group, kernel and stride 1, no padding.
#include "kernels/conv/channels_last/conv_channels_last.h"
#include "kernels/matmul/gemm.h"

namespace ocl {
namespace {

at::Tensor as_matrix(const at::Tensor& tensor) {
  const int64_t channels = tensor.size(1);
  return tensor.as_strided({tensor.numel() / channels, channels}, {channels, 1});
}

const char* refusal(const ConvCall& call) {
  const bool pairs = call.result.scalar_type() == at::kBFloat16;
  if (const char* reason =
          pairs ? channels_last::refusal_of_pairs(call) : channels_last::refusal_of_call(call)) {
    return reason;
  }
  const ConvShape& s = call.shape;
  if (s.groups != 1) return "more than one group";
  return s.is_pointwise() ? nullptr : "the kernel or the stride is not 1, or there is padding";
}

void run(const ConvCall& call) {
  const at::NoTF32Guard exact;  // float32_matmul_precision is not for convolutions
  const at::Tensor result = as_matrix(call.result), source = as_matrix(call.source);
  const at::Tensor factor = as_matrix(call.factor);
  const int beta = call.bias.defined() ? 1 : 0;
  switch (call.direction) {
    case ConvDirection::kForward:
      return gemm(result, source, factor.t(), 1, call.bias, beta);
    case ConvDirection::kDataGrad:
      return gemm(result, source, factor, 1, call.bias, beta);
    case ConvDirection::kWeightGrad:
      return gemm(result, factor.t(), source, 1, {}, 0);
  }
}

}  // namespace

const ConvAlgorithm kConvChannelsLastProduct{"channels_last_product", true, &refusal, &run};

}  // namespace ocl
