// The algorithms of convolutions. Each has a .cpp, with a row that says whether it applies and runs
// it, and kernels of the same name. kernels/conv/conv_algorithms.cpp orders the rows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/device/device.h"
#include "kernels/conv/common/conv.h"
#include "kernels/conv/common/conv_pass.h"

namespace ocl {

enum class ConvDirection : uint8_t { kForward, kDataGrad, kWeightGrad };

// One convolution or gradient. The tensors have one type. They are contiguous, or with
// `channels_last` in that format; then weights that are read may be in either format.
struct ConvCall {
  ConvDirection direction;
  const ConvShape& shape;
  bool channels_last;
  // kForward: the output, the input, the weights. kDataGrad: the gradient of the input, the
  // gradient of the output, the weights. kWeightGrad: the gradient of the weights, the input, the
  // gradient of the output. The result is never empty.
  const at::Tensor &result, &source, &factor;
  const at::Tensor& bias;    // may be undefined
  const Epilogue& epilogue;  // applied after the bias; forward direction only
  Device& device;

  // Results that refusal() has computed for run().
  mutable std::shared_ptr<const void> plan = nullptr;
  mutable int64_t variant = 0;
  mutable std::vector<ConvPass> known_passes = {};

  // The passes of the forward direction or of the data gradient.
  const std::vector<ConvPass>& passes() const;
  template <typename Plan>
  const Plan& plan_as() const {
    return *static_cast<const Plan*>(plan.get());
  }
};

struct ConvAlgorithm {
  const char* name;
  bool channels_last;  // the memory format of its tensors
  // nullptr if the algorithm applies, else why it does not, or why it would be slow. Refusals
  // contain all estimates of time; a table has only its order.
  const char* (*refusal)(const ConvCall&);
  void (*run)(const ConvCall&);  // after refusal() of the same call
};

extern const ConvAlgorithm kConvChannelsLastProduct, kConvChannelsLastDepthwise, kConvChannelsLast;
extern const ConvAlgorithm kConvChannelsLastUnit;   // for CPUs with a matrix unit
extern const ConvAlgorithm kConvChannelsLastPairs;  // for CPUs with products of bfloat16
extern const ConvAlgorithm kConvChannelsLastWinograd, kConvChannelsLastWeight;
extern const ConvAlgorithm kConvDepthwise, kConvWinograd, kConvBroadcast, kConvPadded;  // CPUs
extern const ConvAlgorithm kConvSplit, kConvWinogradGpu, kConvTiles, kConvDirect;       // GPUs
extern const ConvAlgorithm kConvPlain;  // for every type, geometry and family

// The refusal that algorithms of CPU devices for one type (float32 or bfloat16) share.
const char* refusal_of_cpu_kernels(const ConvCall& call, at::ScalarType type = at::kFloat);

// choose_algorithm() calls this.
const char* refusal(const ConvAlgorithm& row, const ConvCall& call);
std::string describe(const ConvCall& call);

}  // namespace ocl
