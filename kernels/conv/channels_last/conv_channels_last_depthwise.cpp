// Depthwise convolutions of channels_last tensors: launches of conv_channels_last_depthwise.cl.
#include <ATen/ceil_div.h>

#include "kernels/conv/channels_last/conv_channels_last.h"
#include "kernels/core/dtype.h"
#include "kernels/core/tensors.h"

namespace ocl {
namespace {

using namespace channels_last;

constexpr int64_t kTasks = 32;
constexpr int32_t kMaxTaps = 11;  // of a row: the weight gradient keeps a sum of each in a register
constexpr int32_t kMaxRows = 32;

const Kernel& find(Device& device, const char* name, int32_t taps) {
  static Site site;
  const KernelKey key{&site, {reinterpret_cast<uint64_t>(name), static_cast<uint64_t>(taps)}};
  return find_kernel(device, key, [&] {
    Defines defines;
    defines.set("VW", conv_lanes(device)).set("TAPS_X", taps).set("MAX_ROWS", kMaxRows);
    return KernelSource{"conv_channels_last_depthwise.cl", name, defines};
  });
}

bool is_depthwise(const ConvPass& pass, const at::Tensor& tensor) {
  return pass.channels == 1 && pass.rows == 1 && pass.groups >= conv_lanes(ocl_device(tensor)) &&
         pass.tap_count[2] <= kMaxTaps && pass.tap_count[0] * pass.tap_count[1] <= kMaxRows;
}

struct Share {
  int32_t lines, per_task;
  int64_t tasks() const { return at::ceil_div(int64_t{lines}, int64_t{per_task}); }
};

Share share_lines(const ConvPass& pass) {
  const int32_t lines = pass.images * pass.size[0] * pass.size[1];
  return {lines, static_cast<int32_t>(at::ceil_div(int64_t{lines}, kTasks))};
}

}  // namespace

bool depthwise_channels_last(const std::vector<ConvPass>& passes, const at::Tensor& result,
                             const at::Tensor& source, const at::Tensor& weight,
                             const at::Tensor& bias) {
  for (const ConvPass& pass : passes) {
    if (!is_depthwise(pass, result)) return false;
  }
  Device& device = ocl_device(result);
  Stream& stream = stream_of(result);
  for (const ConvPass& pass : passes) {
    const int32_t taps = pass.tap_count[2];
    const at::Tensor packed = conv_scratch(int64_t{pass.taps} * pass.groups, weight);
    launch(stream, find(device, "pack_depthwise", taps), {}, {}, view(packed), view(weight), pass);
    const Share share = share_lines(pass);
    launch(stream, find(device, "depthwise", taps), {static_cast<size_t>(share.tasks())}, {},
           view(result), view(source), view(packed), view(bias.defined() ? bias : packed),
           static_cast<int32_t>(bias.defined()), pass, share.lines, share.per_task);
  }
  return true;
}

bool depthwise_weight_channels_last(const ConvShape& s, const at::Tensor& weight,
                                    const at::Tensor& input, const at::Tensor& output) {
  const ConvPass pass = forward_pass(s);
  if (!is_depthwise(pass, weight)) return false;
  Device& device = ocl_device(weight);
  Stream& stream = stream_of(weight);
  const int32_t taps = pass.tap_count[2];
  const Share share = share_lines(pass);
  const at::Tensor parts = conv_scratch(share.tasks() * pass.taps * pass.groups, weight);
  launch(stream, find(device, "depthwise_weight", taps), {static_cast<size_t>(share.tasks())}, {},
         view(parts), view(input), view(output), pass, share.lines, share.per_task);
  launch(stream, find(device, "unpack_depthwise", taps), {}, {}, view(weight), view(parts), pass,
         static_cast<int32_t>(share.tasks()));
  return true;
}

}  // namespace ocl
