#include "kernels/attention/sdpa_decode.h"

#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>

#include "kernels/core/algorithms/algorithms.h"
#include "kernels/core/grids/grid.h"

namespace ocl {
namespace {

// The keys of a block. A part has a multiple of this.
constexpr int64_t kBlock = 64;

constexpr int64_t kPartialSums = 2;  // numbers before the sums of values (PARTIAL_SIZE in sdpa.clh)

struct Parts {
  int64_t count, keys;
};
Parts parts_of(const Device& device, const Attention& a) {
  const int64_t keys = a.causal ? std::min(a.problem.queries, a.problem.keys) : a.problem.keys;
  const auto heads = static_cast<size_t>(a.batch() * a.heads());
  const auto wanted =
      static_cast<int64_t>(parts_for(device, heads, static_cast<size_t>(keys), kBlock));
  const int64_t each = at::round_up(at::ceil_div(keys, wanted), kBlock);
  return {at::ceil_div(keys, each), each};
}

struct AttentionDecode {
  AttentionCode code;
  bool split;
  int64_t queries;

  KernelSource source(Device& device, size_t group) const {
    Defines defines = code.defines();
    defines.set("QUERIES", queries);
    if (split) defines.set("SPLIT", 1);
    if (device.family() == KernelFamily::kGpu) {
      defines.set("ITEMS", std::min<int64_t>(static_cast<int64_t>(group), kBlock));
      return {"sdpa_decode_gpu.cl", "attention_decode", defines};
    }
    const size_t width = device.parameters().vector_width;
    defines.set("WIDTH", static_cast<int64_t>(std::clamp<size_t>(width, 4, 16)));
    return {"sdpa_decode_cpu.cl", "attention_decode", defines};
  }
};

struct AttentionMerge {
  ScalarType type;
  int64_t dv;

  KernelSource source(Device& device) const {
    Defines defines;
    defines.set("DT", dtype_name(type)).set("DV", dv);
    define_grid(defines, device);
    return {"sdpa_merge.cl", "attention_merge", defines};
  }
};

void merge(const Attention& a, const at::Tensor& out, const at::Tensor& log_sum,
           const at::Tensor& partial, int64_t parts) {
  Device& device = ocl_device(out);
  const Kernel& kernel = find_kernel(device, AttentionMerge{out.scalar_type(), out.size(3)});
  const auto units = static_cast<size_t>(log_sum.numel()), inner = static_cast<size_t>(out.size(3));
  const UnitGrid grid = unit_grid(device, units, inner, static_cast<size_t>(parts));
  launch(stream_of(out), kernel, grid.global, grid.local, view(out), view(log_sum), view(partial),
         a.problem, parts, uint64_t{units}, uint64_t{inner}, grid.per_item);
}

}  // namespace

const char* refusal_of_decoding(const AttentionCall& call) {
  const Attention& a = call.attention;
  if (call.which != SdpaKernel::kForward) return "a gradient";
  if (a.dropout > 0) return "dropout";
  if (a.problem.keys == 0) return "no keys";
  // More queries than this fill the tiles of the other kernels.
  const int64_t most = ocl_device(a.query).family() == KernelFamily::kCpu ? 4 : 8;
  return a.problem.queries <= most ? nullptr : "many queries";
}

void decode(const AttentionCall& call) {
  const Attention& a = call.attention;
  const at::Tensor &out = *call.before.begin(), &log_sum = *(call.before.begin() + 1);
  Device& device = ocl_device(a.query);
  const Parts parts = parts_of(device, a);
  const bool split = parts.count > 1;
  const Kernel& kernel =
      find_kernel(device, AttentionDecode{attention_code(a), split, a.problem.queries});
  const at::Tensor partial =
      split ? at::empty({log_sum.numel(), parts.count, kPartialSums + a.value.size(3)},
                        log_sum.options())
            : log_sum;  // any tensor: it is not used
  Arguments arguments(stream_of(a.query), kernel);
  arguments.add(view(out)).add(view(log_sum));
  arguments.add(view(a.query)).add(view(a.key)).add(view(a.value));
  if (a.bias) arguments.add(view(*a.bias));
  arguments.add(view(partial)).add(a.problem).add(parts.count).add(parts.keys);
  const bool gpu = device.family() == KernelFamily::kGpu;
  const size_t items = gpu ? std::min<size_t>(kernel.group, kBlock) : 1;
  const double work = static_cast<double>(a.problem.keys) * a.problem.queries * a.heads() *
                      a.batch() * (a.query.size(3) + a.value.size(3)) * kPlainCost;
  arguments.enqueue({static_cast<size_t>(parts.count) * items, static_cast<size_t>(a.heads()),
                     static_cast<size_t>(a.batch())},
                    {items, 1, 1}, gpu ? work : 0);
  if (split) merge(a, out, log_sum, partial, parts.count);
}

}  // namespace ocl
