// Depthwise convolutions of channels_last tensors: launches of conv_channels_last_depthwise.cl.
#include <ATen/ceil_div.h>

#include "kernels/conv/channels_last/conv_channels_last.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"

namespace ocl {
namespace {

using namespace channels_last;

constexpr int64_t kTasks = 32;
constexpr int32_t kMaxTaps = 11;  // taps of a row: registers hold a sum for each weight
constexpr int32_t kMaxRows = 32;

struct Depthwise {
  const char* name;
  int32_t taps;  // taps of a row

  KernelSource source(Device& device) const {
    Defines defines;
    defines.set("VW", conv_lanes(device)).set("TAPS_X", taps).set("MAX_ROWS", kMaxRows);
    return {"conv_channels_last_depthwise.cl", name, defines};
  }
};

const char* refusal_of_pass(const ConvPass& pass, const Device& device) {
  if (pass.channels != 1 || pass.rows != 1) return "not depthwise";
  if (pass.groups < conv_lanes(device)) return "few groups";
  if (pass.tap_count[2] > kMaxTaps || pass.tap_count[0] * pass.tap_count[1] > kMaxRows) {
    return "the kernel is too large";
  }
  return nullptr;
}

const char* refusal(const ConvCall& call) {
  if (const char* reason = refusal_of_call(call)) return reason;
  for (const ConvPass& pass : call.passes()) {
    if (const char* reason = refusal_of_pass(pass, call.device)) return reason;
  }
  return nullptr;
}

struct Share {
  int32_t lines, per_task;
  int64_t tasks() const { return at::ceil_div(int64_t{lines}, int64_t{per_task}); }
};

Share share_lines(const ConvPass& pass) {
  const int32_t lines = pass.images * pass.size[0] * pass.size[1];
  return {lines, static_cast<int32_t>(at::ceil_div(int64_t{lines}, kTasks))};
}

void run_planes(const ConvCall& call) {
  Stream& stream = stream_of(call.result);
  for (const ConvPass& pass : call.passes()) {
    const int32_t taps = pass.tap_count[2];
    const at::Tensor packed = conv_scratch(int64_t{pass.taps} * pass.groups, call.factor);
    launch(stream, find_kernel(call.device, Depthwise{"pack_depthwise", taps}), {}, {},
           view(packed), view(call.factor), pass);
    const Share share = share_lines(pass);
    launch(stream, find_kernel(call.device, Depthwise{"depthwise", taps}),
           {static_cast<size_t>(share.tasks())}, {}, view(call.result), view(call.source),
           view(packed), view(call.bias.defined() ? call.bias : packed),
           static_cast<int32_t>(call.bias.defined()), pass, share.lines, share.per_task);
  }
}

void run_weight_grad(const ConvCall& call) {
  const ConvPass& pass = call.passes().front();
  const at::Tensor& weight = call.result;
  Stream& stream = stream_of(weight);
  const int32_t taps = pass.tap_count[2];
  const Share share = share_lines(pass);
  const at::Tensor parts = conv_scratch(share.tasks() * pass.taps * pass.groups, weight);
  launch(stream, find_kernel(call.device, Depthwise{"depthwise_weight", taps}),
         {static_cast<size_t>(share.tasks())}, {}, view(parts), view(call.source),
         view(call.factor), pass, share.lines, share.per_task);
  launch(stream, find_kernel(call.device, Depthwise{"unpack_depthwise", taps}), {}, {},
         view(weight), view(parts), pass, static_cast<int32_t>(share.tasks()));
}

void run(const ConvCall& call) {
  (call.direction == ConvDirection::kWeightGrad ? run_weight_grad : run_planes)(call);
}

}  // namespace

const ConvAlgorithm kConvChannelsLastDepthwise{"channels_last_depthwise", true, &refusal, &run};

}  // namespace ocl
