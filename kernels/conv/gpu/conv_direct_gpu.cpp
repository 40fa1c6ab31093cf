// Convolutions of GPUs with few channels: launches of conv_direct_gpu.cl.
#include "kernels/conv/gpu/conv_direct_gpu.h"

#include <ATen/ceil_div.h>

#include <algorithm>
#include <atomic>

#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"

namespace ocl {
namespace {

constexpr size_t kMostBytes = INT32_MAX;
std::atomic<size_t> byte_limit{kMostBytes};
constexpr int32_t kMostReadLines = 32, kMostTaps = 64;  // limits registers and code size

int32_t lines(const ConvPass& pass) { return std::min(pass.size[1], 4); }

int32_t read_lines(const ConvPass& pass) {
  return (lines(pass) - 1) * pass.step[1] + (pass.tap_count[1] - 1) * std::abs(pass.spacing[1]) + 1;
}

const char* refusal(const ConvCall& call) {
  if (const char* reason = refusal_of_gpu_kernels(call)) return reason;
  for (const ConvPass& pass : call.passes()) {
    if (!fits_direct(pass)) return has_volume(pass) ? "three dimensions" : "too many taps";
  }
  return nullptr;
}

void run(const ConvCall& call) {
  fill_without_taps(call);
  for (const ConvPass& pass : call.passes()) {
    if (is_launched(pass, call)) run_direct(pass, call);
  }
  apply_epilogue(call.epilogue, call.result, call.result);
}

struct ConvDirect {
  ScalarType type;
  bool has_bias;
  int32_t lines, tap_lines, tap_columns, step, spacing;

  KernelSource source(Device&) const {
    Defines defines = element_defines(type);
    defines.set("LINES", lines)
        .set("TAP_LINES", tap_lines)
        .set("TAP_COLUMNS", tap_columns)
        .set("STEP", step)
        .set("SPACING", spacing)
        .set("HAS_BIAS", has_bias);
    return {"conv_direct_gpu.cl", "conv_direct", defines};
  }
};

}  // namespace

const char* refusal_of_gpu_kernels(const ConvCall& call) {
  if (call.device.family() != KernelFamily::kGpu) return "for GPUs";
  return most_bytes(call) <= conv_byte_limit() ? nullptr : "a tensor of 2 GiB or more";
}

size_t most_bytes(const ConvCall& call) {
  return std::max({call.result.nbytes(), call.source.nbytes(), call.factor.nbytes()});
}

size_t conv_byte_limit() { return byte_limit.load(std::memory_order_relaxed); }

void set_conv_byte_limit(size_t bytes) { byte_limit = bytes ? bytes : kMostBytes; }

bool has_volume(const ConvPass& pass) {
  // If first[0] != 0, the only tap is not at the only element, and reads padding.
  return pass.source[0] > 1 || pass.size[0] > 1 || pass.tap_count[0] > 1 || pass.first[0] != 0;
}

bool is_launched(const ConvPass& pass, const ConvCall& call) {
  return pass.channels > 0 || call.passes().size() == 1;
}

void fill_without_taps(const ConvCall& call) {
  const auto& passes = call.passes();
  const auto launched = [&](const ConvPass& pass) { return is_launched(pass, call); };
  if (std::ranges::all_of(passes, launched)) return;
  const at::Tensor planes = call.result.view({call.shape.images, -1, passes.front().result_plane});
  if (call.bias.defined()) {
    planes.copy_(call.bias.view({1, -1, 1}).expand(planes.sizes()));
  } else {
    planes.zero_();
  }
}

bool fits_direct(const ConvPass& pass) {
  return !has_volume(pass) && read_lines(pass) <= kMostReadLines &&
         pass.tap_count[1] * pass.tap_count[2] <= kMostTaps;
}

Arguments bind_tensors(const Kernel& kernel, const at::Tensor& on,
                       std::initializer_list<at::Tensor> all) {
  Arguments arguments(stream_of(on), kernel);
  for (const at::Tensor& tensor : all) {
    arguments.add(view(tensor.defined() && tensor.numel() ? tensor : on));
  }
  return arguments;
}

void run_direct(const ConvPass& pass, const ConvCall& call) {
  const at::Tensor &result = call.result, &bias = call.bias;
  const Kernel& kernel = find_kernel(
      call.device, ConvDirect{result.scalar_type(), bias.defined(), lines(pass), pass.tap_count[1],
                              pass.tap_count[2], pass.step[1], pass.spacing[1]});
  const int64_t group = std::min<int64_t>(64, static_cast<int64_t>(kernel.group));
  bind_tensors(kernel, result, {result, call.source, call.factor, bias})
      .add(pass)
      .enqueue({static_cast<size_t>(at::round_up<int64_t>(pass.size[2], group)),
                static_cast<size_t>(at::ceil_div(pass.size[1], lines(pass))),
                static_cast<size_t>(pass.images) * pass.groups * pass.rows},
               {static_cast<size_t>(group)}, pass.work() * multiply_cost(result.scalar_type()));
}

const ConvAlgorithm kConvDirect{"direct", false, &refusal, &run};

}  // namespace ocl
