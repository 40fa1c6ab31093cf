#include "kernels/conv/common/conv_algorithm.h"

#include <c10/util/StringUtil.h>

namespace ocl {
namespace {

// The last `count` of the dimensions, as in "3x3".
std::string text_of(const ConvShape::Dims& dims, int64_t count) {
  return c10::Join("x", c10::ArrayRef<int32_t>(dims).slice(dims.size() - count));
}

}  // namespace

const std::vector<ConvPass>& ConvCall::passes() const {
  if (known_passes.empty()) {
    known_passes = direction == ConvDirection::kDataGrad ? data_grad_passes(shape)
                                                         : std::vector{forward_pass(shape)};
  }
  return known_passes;
}

const char* refusal_of_cpu_kernels(const ConvCall& call, at::ScalarType type) {
  if (call.device.family() != KernelFamily::kCpu) return "for CPU devices";
  if (call.result.scalar_type() != type) {
    return type == at::kFloat ? "for float32" : "for bfloat16";
  }
  if (call.source.numel() == 0) return "the source is empty";
  return nullptr;
}

const char* refusal(const ConvAlgorithm& row, const ConvCall& call) {
  if (row.channels_last != call.channels_last) {
    return row.channels_last ? "the tensors are contiguous" : "the tensors are channels_last";
  }
  return row.refusal(call);
}

std::string describe(const ConvCall& call) {
  static constexpr const char* kDirections[] = {"convolution", "data gradient of convolution",
                                                "weight gradient of convolution"};
  const ConvShape& s = call.shape;
  const int64_t dims = call.result.dim() - 2;
  return c10::str(kDirections[static_cast<int>(call.direction)], ", ", call.result.scalar_type(),
                  call.channels_last ? " channels_last" : "", " on ocl:", int{call.device.index()},
                  ", ", s.images, " images, ", s.groups, " groups, ", s.in_channels, " to ",
                  s.out_channels, " channels, ", text_of(s.in, dims), " to ", text_of(s.out, dims),
                  ", kernel ", text_of(s.kernel, dims), ", stride ", text_of(s.stride, dims),
                  ", padding ", text_of(s.pad, dims), ", dilation ", text_of(s.dilation, dims));
}

}  // namespace ocl
